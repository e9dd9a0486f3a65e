"""The common parts of homework 3's questions: layers on devices, as inspected steps show them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.inspected_run import DeviceShare, Inspection, Pipeline, layer_rows, pipeline_of
from scalewise.analysis.summary import ArmRow
from scalewise.course.measured_arms import REFUSED, arm_refusal, missing_reason, numbers_along, usable
from scalewise.records.inspection import BusyRow
from scalewise.report.cells import empty_cell, estimate_cell, mark_of, number_cell, said, text_cell
from scalewise.report.document import Cell, Figure, Lane, Mark, TimelinePlot
from scalewise.units import counted, listed, significant

TWO = "two-devices"
ALL = "all-devices"
DEPTHS = (6, 12, 24)
DEVICES = (1, 2, 5)
AT_ONCE = 0.05  # of forward and backward: where two devices work together for less, they work one at a time
ALIKE = 5  # percentage points within which busy shares are told as one range
EMULATED = (
    "Emulated: there are fewer GPUs than devices, so logical devices share one machine. Layers, copies and memory are "
    "real; times are not those of several GPUs."
)
SHARES = "% of forward and backward"  # what a busy share is of, in every table
OF_WHAT = (
    "Shares are of the time from the first layer's forward to the last layer's backward in one step that was looked "
    "into; the optimizer comes after it."
)
KIB, MEGABYTE = 1024, 1e6
MILLI = 1e-6  # nanoseconds to milliseconds


@dataclass(frozen=True)
class Placed:
    """One point of an experiment: its measured figures and one inspected step."""

    value: int  # value of the axis: DEPTH, or the number of devices
    row: ArmRow | None
    seen: Pipeline | None
    inspected: Inspection | None
    missing: str  # why there are no figures; empty if there are some

    @property
    def mark(self) -> Mark:
        """Emulated if logical devices stand for GPUs, else the mark of the row."""
        return mark_of(self.row, emulated=self.inspected is not None and self.inspected.emulated)

    @property
    def step_cell(self) -> Cell:
        """The step time in milliseconds."""
        step = self.row.step_seconds if self.row else None
        return estimate_cell(step, 1e3, mark=self.mark, why_empty=self.missing)


def placed_along(evidence: Evidence, experiment: str, axis: str, wanted: tuple[int, ...]) -> tuple[Placed, ...]:
    """Returns a point for every value of the axis that was run; for the course's own values if none was."""
    values = numbers_along(evidence, experiment, axis, wanted)
    inspected = {value: evidence.inspection(experiment, **_at(axis, value)) for value in values}
    logical = any(one.emulated for one in inspected.values() if one)
    found = []
    for value in values:
        row = usable(evidence, experiment, **_at(axis, value))
        missing = "" if row else missing_reason(evidence, experiment, **_at(axis, value))
        seen = pipeline_of(_counted_alike(inspected[value], logical))
        refused = _other_label(axis, value, seen) if row else arm_refusal(evidence, experiment, **_at(axis, value))
        if refused:
            found.append(Placed(value, None, None, None, refused))
        else:
            found.append(Placed(value, row, seen, inspected[value], missing))
    return tuple(found)


def _other_label(axis: str, value: int, seen: Pipeline | None) -> str:
    """Returns why the layers' devices contradict the row's number of devices; empty if they do not."""
    if axis != "devices" or seen is None or seen.device_count == min(value, len(seen.layers)):
        return ""
    return (
        f"{REFUSED}your script was given {devices_phrase(value)}, and its layers lay on {seen.device_count}: the "
        "class is to ask torch.cuda.device_count() and use all of them"
    )


def _at(axis: str, value: int) -> dict[str, Any]:
    return {axis: value}


def _counted_alike(inspected: Inspection | None, logical: bool) -> Inspection | None:
    """Returns the inspection with memory counted in tensors, as on logical devices; an allocator has workspaces too."""
    row = inspected.memory if inspected else None
    if inspected is None or row is None or not logical or inspected.emulated or len(inspected.device_memory) != 1:
        return inspected
    if not row.peak_bytes:
        return inspected
    return replace(inspected, device_memory=(replace(inspected.device_memory[0], peak_bytes=row.peak_bytes),))


def copy_bytes(point: Placed) -> float | None:
    """Returns the size of one copy in forward; None if nothing was copied."""
    moved = point.seen.forward if point.seen else None
    return moved.bytes / moved.count if moved and moved.count else None


def devices_phrase(count: int) -> str:
    """Returns `1 device`, `5 devices`."""
    return counted(count, "device")


def layers_text(pipeline: Pipeline, device: str) -> str:
    """Returns `3 (0–2)`: how many layers are on the device, and which."""
    indices = [index for index, layer in enumerate(pipeline.layers) if layer.device == device]
    if not indices:
        return "none"
    unbroken = indices == list(range(indices[0], indices[-1] + 1)) and len(indices) > 1
    return f"{len(indices)} ({f'{indices[0]}–{indices[-1]}' if unbroken else ', '.join(map(str, indices))})"


def layers_cells(point: Placed, columns: int) -> tuple[Cell, ...]:
    """Returns one cell for each device, filled up with empty ones."""
    if point.seen is None:
        return tuple(empty_cell(point.missing or "this step was not looked into") for _ in range(columns))
    texts = [layers_text(point.seen, one.device) for one in point.seen.devices[:columns]]
    return tuple(text_cell(text) for text in [*texts, *[""] * (columns - len(texts))])


def busy_shares_text(devices: Sequence[DeviceShare]) -> str:
    """Returns `22, 23`: the busy share of each device in turn, in percent."""
    return ", ".join(f"{round(100 * one.busy_share)}" for one in devices)


def at_once_cell(pipeline: Pipeline | None) -> Cell:
    """The share of forward and backward in which more than one device worked, in percent."""
    if pipeline is None or not pipeline.layers_seconds:
        return empty_cell("this step was not looked into")
    return number_cell(pipeline.together_share, 100)


def why_in_turn(pipeline: Pipeline) -> str:
    """Returns the mechanism, for an answer: a layer needs the output of the one before it."""
    if pipeline.together_share <= AT_ONCE:
        return (
            "A layer needs the output of the layer before it, so a device waits until the one before has finished; in "
            "backward it is the same in reverse."
        )
    return "Some of the work of the devices overlapped, so the layers did not all wait for one another."


def timeline_figure(point: Placed, id: str, title: str, width: float = 0.5) -> Figure | None:
    """Returns a figure of when each device worked in one step; None if that was not seen."""
    inspected, seen = point.inspected, point.seen
    rows = layer_rows(inspected) if inspected else ()
    if inspected is None or seen is None or not rows:
        return None
    begin = min(row.begin_ns for row in rows)
    devices = list(dict.fromkeys([*inspected.devices, *(row.device for row in rows)]))
    lanes = tuple(
        Lane(f"device {index}", _stretches([row for row in rows if row.device == device], begin))
        for index, device in enumerate(devices)
    )
    drawn = f"{significant(seen.layers_seconds * 1e3)} ms"
    at_once = seen.together_share > AT_ONCE
    caution = "" if at_once else "; that no two layers work at once follows from the data, not from the waiting"
    caption = (
        "Every layer of one step on its device: the shortest of the steps that were looked into, from the first layer's"
        f" forward to the last layer's backward, {drawn}{_beside(point)}. The devices were made to wait after every "
        f"layer{caution}."
    )
    return Figure(id, title, caption, TimelinePlot(lanes, "time in this step (ms)"), width)


def _beside(point: Placed) -> str:
    """A phrase with the step of the table, which includes the optimizer."""
    if point.step_cell.number is None:
        return ""
    return f" (the step of the table, with its optimizer: {said(point.step_cell, 'ms')})"


def _stretches(rows: Sequence[BusyRow], begin_ns: int) -> tuple[tuple[float, float, str], ...]:
    ordered = sorted(rows, key=lambda one: one.begin_ns)
    return tuple(((row.begin_ns - begin_ns) * MILLI, (row.end_ns - begin_ns) * MILLI, row.phase) for row in ordered)


def shares_phrase(pipeline: Pipeline) -> str:
    """Returns `each device computes for 18 to 19 %`; device by device if they differ widely."""
    shares = [round(100 * one.busy_share) for one in pipeline.devices]
    few, most = min(shares), max(shares)
    if most - few <= ALIKE:
        return f"each device computes for {few} %" if few == most else f"each device computes for {few} to {most} %"
    return listed([f"device {index} computes for {share} %" for index, share in enumerate(shares)])
