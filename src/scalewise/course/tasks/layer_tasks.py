"""The requirements of practical 5, practical 8 and homework 3 on scripts of one process on several GPUs."""

from collections import Counter
from collections.abc import Iterator

from scalewise.analysis.inspected_run import Inspection, Pipeline, contiguous, pipeline_of, placement_rule
from scalewise.course.tasks.requirement import (
    Found,
    Requirement,
    Seen,
    Task,
    call_named,
    decided,
    on_gpu,
    seeds,
    synchronised,
)
from scalewise.doctor.case import Abstain
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import CopyNote, ForwardNote
from scalewise.units import counted, listed

HALVES = "0 if i < depth // 2 else 1"
COUNT_CALL = "torch.cuda.device_count"


def _looked_into(seen: Seen) -> Iterator[tuple[int, Inspection, Pipeline]]:
    """Yields the inspected step for each number of GPUs that was shown to the script."""
    for count, inspection in seen.shown.items():
        pipeline = pipeline_of(inspection)
        if inspection is None or pipeline is None:
            raise Abstain(f"the step on {count} GPUs could not be looked into")
        yield count, inspection, pipeline
    if not seen.shown:
        raise Abstain("no step was looked into")


def _layers_text(pipeline: Pipeline) -> str:
    return ", ".join(f"{len(one.layers)} on GPU {_number(one.device)}" for one in pipeline.devices)


def _number(device: str) -> int:
    """Returns the number of a GPU or of its stand-in: 1 for cuda:1 and for logical:1."""
    number = device.rpartition(":")[2]
    return int(number) if number.isdecimal() else 0


def _split_in_halves(seen: Seen) -> Found:
    change = "In __init__: layer i goes to GPU 0 if i < depth // 2, else to GPU 1."
    for _, inspection, pipeline in _looked_into(seen):
        devices = [layer.device for layer in inspection.layers]
        half = len(devices) // 2
        right = [_number(device) for device in devices] == [0] * half + [1] * (len(devices) - half)
        words = f"{len(devices)} layers: {_layers_text(pipeline)}"
        if right:
            return decided(True, f"{words} (rule: {HALVES})", _device_line(seen))
        swapped = f", and the first layer lies on GPU {_number(devices[0])}" if _number(devices[0]) else ""
        other = swapped if contiguous(devices) else ", and they alternate"
        return decided(False, f"{words}{other}", _device_line(seen), change)
    raise Abstain("no step was looked into")


def _counts_gpus(seen: Seen) -> Found:
    use, written = seen.case.first.device_use, call_named(seen, COUNT_CALL)
    called = bool(use and use.redirected.get(COUNT_CALL))
    where = seen.place(written) if written is not None else None
    words = "called" if called else "in the script's text, its call was not seen" if written else "not called"
    return decided(called or written is not None, words, where, f"Ask {COUNT_CALL}() for the number of GPUs.")


def _spread_evenly(seen: Seen) -> Found:
    """Checks that all GPUs have layers, in unbroken groups that differ by one layer at most."""
    told, right = [], True
    for count, inspection, pipeline in _looked_into(seen):
        devices = [layer.device for layer in inspection.layers]
        sizes = [devices.count(device) for device in dict.fromkeys(devices)]
        wanted = min(count, len(devices))
        right = right and pipeline.device_count == wanted and max(sizes) - min(sizes) <= 1
        if pipeline.device_count < wanted:
            told.append(f"with {count} GPUs only {pipeline.device_count} hold layers ({_layers_text(pipeline)})")
        else:
            told.append(f"with {count} GPUs {'/'.join(map(str, sizes))} layers")
    change = "Take all GPUs from torch.cuda.device_count(): layer i goes to GPU i * gpus // depth."
    return decided(right, "; ".join(told), _device_line(seen), change)


def _rule(seen: Seen) -> Found:
    rules, blocks = set(), []
    for count, inspection, _ in _looked_into(seen):
        devices = [layer.device for layer in inspection.layers]
        rules.add(placement_rule(devices))
        sizes = "/".join(str(devices.count(device)) for device in dict.fromkeys(devices))
        blocks.append(f"{sizes} with {count} GPUs")
        if not contiguous(devices):
            change = "Give each GPU one unbroken group of layers: layer i goes to GPU i * gpus // depth."
            return decided(
                False, f"with {count} GPUs the layers of a GPU are not neighbours", _device_line(seen), change
            )
    if None in rules:
        return decided(
            True, f"the layers in their order, in one block for each GPU: {listed(blocks)}", _device_line(seen)
        )
    return decided(True, f"GPU of layer i = {listed(sorted(str(rule) for rule in rules))}", _device_line(seen))


def _moves_in_forward(seen: Seen) -> Found:
    told, right = [], True
    where = None
    for count, _, pipeline in _looked_into(seen):
        moves = pipeline.forward.count
        right = right and moves == pipeline.device_count - 1 and pipeline.device_count > 1
        told.append(f"with {count} GPUs {counted(moves, 'transfer')} in one forward pass")
        over = pipeline.hand_overs[0] if pipeline.hand_overs else None
        where = where or (PlaceRow(-1, over.file, over.line, "forward", over.text) if over else None)
    change = "In forward(): x = x.to(layer_device) before each layer; it moves only where the device changes."
    return decided(right, "; ".join(told), where or _forward_line(seen), change)


def _forward_line(seen: Seen) -> PlaceRow | None:
    return seen.case.first.place(next(iter(seen.case.first.all(ForwardNote)), None))


def _device_line(seen: Seen) -> PlaceRow | None:
    """Returns the line that put most of the layers on their devices, if it was noted."""
    copies = Counter(note.place for note in seen.case.first.all(CopyNote) if note.call == "to")
    for place, _ in copies.most_common():
        row = seen.case.first.places.get(place)
        if row is not None and row.function == "__init__":
            return row
    return _forward_line(seen)


def _data_parallel(seen: Seen) -> Found:
    found = next((row for row in seen.case.first.wrappers if row.wrapper == "DataParallel"), None)
    if found is None:
        change = "Wrap the model: model = nn.DataParallel(model.to(device))."
        return decided(False, "no nn.DataParallel was made", _forward_line(seen), change)
    return decided(True, "nn.DataParallel was made", seen.case.first.places.get(found.place))


PRACTICAL5 = Task(
    "practical5",
    "practical 5 (H1.4)",
    "practical5_dp",
    (
        seeds("H1.4"),
        on_gpu("H1.4"),
        Requirement("H1.4", "one process with nn.DataParallel", _data_parallel),
        synchronised("H1.4"),
    ),
    plain=True,
)
PRACTICAL8 = Task(
    "practical8",
    "practical 8 (H3.1)",
    "practical8_model_parallel",
    (
        seeds("H3.1"),
        on_gpu("H3.1"),
        Requirement("H3.1", "layers split over two GPUs by if i < depth // 2", _split_in_halves),
        Requirement("H3.1", "x = x.to(layer_device) in forward()", _moves_in_forward),
        synchronised("H3.1"),
    ),
    plain=True,
    shown=(2,),
)
HOMEWORK3 = Task(
    "homework3",
    "homework 3 (H3.3 to H3.5)",
    "homework3_model_parallel",
    (
        seeds("H3.3"),
        on_gpu("H3.3"),
        Requirement("H3.3", "detects torch.cuda.device_count()", _counts_gpus),
        Requirement("H3.3", "spreads the layers evenly over all GPUs", _spread_evenly),
        Requirement("H3.3", "a rule maps a layer's index to a GPU", _rule),
        Requirement("H3.5", "x.to(layer_device) moves data only between GPUs", _moves_in_forward),
        synchronised("H3.4"),
    ),
    plain=True,
    shown=(2, 5),
)
