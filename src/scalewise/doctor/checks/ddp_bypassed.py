"""Detects training forward passes that bypass the DDP wrapper, so that no gradient is averaged."""

from scalewise.doctor.case import Abstain, Case, Window
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.averaging import averages_by_hand, comparisons, fed_differently, reduces_by_hand
from scalewise.doctor.queries.source import text_of, wrapper_name
from scalewise.records.examination import PlaceRow, WrapperRow
from scalewise.records.notes import ForwardNote

CHECK = Check(
    name="ddp-bypassed",
    group="ddp",
    severity="wrong",
    detects="The module inside DistributedDataParallel is called in training, past the wrapper.",
    why="DDP prepares the averaging of gradients in its own forward. Past it, each rank trains alone on its share of "
    "the data, and the models drift apart without any message.",
    example="model = DDP(net)\nloss = criterion(model.module(x), y)\nloss.backward()",
    fix="model = DDP(net)\nloss = criterion(model(x), y)\nloss.backward()",
    needs="a DistributedDataParallel of two or more ranks and two optimizer steps",
    silent="Evaluation, export and saving through `.module`; gradients or models averaged by the script itself; "
    "windows in which the wrapper was called as well.",
)
LEAST_WINDOWS = 2


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding per wrapper that was bypassed."""
    wrappers = [row for row in case.first.wrappers if row.wrapper == "DistributedDataParallel" and len(row.ranks) > 1]
    if not wrappers:
        raise Abstain("no DistributedDataParallel of two or more ranks")
    windows = case.windows(LEAST_WINDOWS)
    return tuple(finding for row in wrappers for finding in _of_wrapper(case, row, windows))


def _of_wrapper(case: Case, wrapper: WrapperRow, windows: tuple[Window, ...]) -> tuple[Finding, ...]:
    if averages_by_hand(windows, wrapper.parameter_bytes) or _agree_all_the_same(case, wrapper):
        return ()
    own = _of_its_optimizers(windows, wrapper)
    past = [note for window in own if (note := _passed_by(window, wrapper)) is not None]
    if len(past) >= LEAST_WINDOWS:
        return (_finding(case, wrapper, past, len(windows)),)
    inner = [notes[-1] for window in windows if window.backwards and (notes := _that_may_train(window))]
    if past or not inner or not _left_alone(case, wrapper, windows):
        return ()
    return (_finding(case, wrapper, inner, len(windows)),)


def _of_its_optimizers(windows: tuple[Window, ...], wrapper: WrapperRow) -> tuple[Window, ...]:
    """Returns the windows of optimizers that step after passes through the wrapper (a GAN has others, too)."""
    owners = {
        window.step.optimizer
        for window in windows
        if window.step and any(note.wrapper == wrapper.index for note in window.forwards)
    }
    return tuple(window for window in windows if not owners or (window.step and window.step.optimizer in owners))


def _passed_by(window: Window, wrapper: WrapperRow) -> ForwardNote | None:
    """Returns the window's last forward pass of the inner module if no wrapper was called and nothing was reduced."""
    past = [note for note in window.forwards if note.bypassed == wrapper.index]
    through = any(note.wrapper >= 0 for note in window.forwards)
    if not past or through or not window.backwards or reduces_by_hand(window, wrapper.parameter_bytes):
        return None
    return past[-1]


def _left_alone(case: Case, wrapper: WrapperRow, windows: tuple[Window, ...]) -> bool:
    """Returns True if the wrapper is never entered and its parameters differ between ranks."""
    if any(note.wrapper >= 0 for window in windows for note in _that_may_train(window)):
        return False
    if any(reduces_by_hand(window, wrapper.parameter_bytes) for window in windows):
        return False
    compared = comparisons(case, wrapper)
    return bool(compared and compared[-1].gaps)


def _that_may_train(window: Window) -> tuple[ForwardNote, ...]:
    """Returns the window's training forward passes; if it has none (a model in evaluation mode), all of them."""
    return window.forwards or window.all(ForwardNote)


def _agree_all_the_same(case: Case, wrapper: WrapperRow) -> bool:
    """Returns True if the ranks train on different data and stay equal: something unseen averages."""
    compared = comparisons(case, wrapper)
    return len(compared) > 1 and not any(one.gaps for one in compared) and fed_differently(case)


def _finding(case: Case, wrapper: WrapperRow, past: list[ForwardNote], windows: int) -> Finding:
    rank = case.first
    where, made = rank.place(past[0]), rank.places.get(wrapper.place)
    evidence = [
        f"{len(past)} of {windows} optimizer steps trained on a forward pass of {past[0].module} outside the wrapper",
        "gradients averaged in these steps: none, neither by DDP nor by the script",
    ]
    differing = next((one for one in comparisons(case, wrapper) if one.gaps), None)
    if differing is not None:
        evidence.append(
            f"after step {differing.step}, {len(differing.gaps)} of {differing.tensors} parameter tensors differ "
            f"between ranks, by up to {max(differing.gaps.values()):.2g} of their norm"
        )
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"DistributedDataParallel is bypassed in {len(past)} of {windows} optimizer steps: its inner module "
        f"is called directly, so {len(wrapper.ranks)} ranks train {len(wrapper.ranks)} separate models.",
        evidence=tuple(evidence),
        fix=_fix(where, wrapper_name(rank, wrapper)),
        where=where,
        also=(made,) if made else (),
        price=Price(len(past), "steps", "without averaged gradients", "counted"),
        ranks=wrapper.ranks,
        steps_seen=windows,
    )


def _fix(where: PlaceRow | None, model: str) -> str:
    text = text_of(where, "")
    if ".module(" in text:
        return text.replace(".module(", "(")
    instead = f"  # instead of: {text}" if text else ""
    return f"# call the wrapper itself in training, never a part of it:\noutput = {model}(x){instead}"
