"""H1.4: DataParallel against DDP, by what each device does, holds and moves."""

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.inspection import Inspection
from scalewise.analysis.propagate import propagate
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.devices import DDP, DP, SHARED_GPU, Comparison, DeviceUse, comparison
from scalewise.explain.homework1.pieces import volume
from scalewise.explain.words import bytes_phrase, listed, number_phrase, percent_text

ROW = "H1.4"
TABLE = "h1-4-dp-ddp"
BOUND = "Why is DataParallel bound by GPU 0?"
DESIGN = "Why does DDP scale better by design?"
ACCEPTABLE = "When is DataParallel still acceptable?"
MORE = 1.05  # device 0 must do or hold this many times as much before it is said to stand out
TOLERABLE = 0.10  # of the working time lost to device 0 alone, or of DDP's step time


def bound_answer(found: Comparison) -> Answer:
    """Bound where the first device does or holds more than the others; else said not to show."""
    first, others = _split(found.uses(DP))
    if first is None or not others or found.inspected is None:
        return unanswered(ROW, BOUND, _hole(found))
    work = _times(first.utilisation, [one.utilisation for one in others])
    memory = _times(first.memory_bytes, [one.memory_bytes for one in others])
    said = []
    if work is not None and first.utilisation is not None:
        rest = max(one.utilisation or 0.0 for one in others)
        said.append(f"it works {percent_text(first.utilisation)} of the time, the busiest other {percent_text(rest)}")
    if memory is not None:
        said.append(f"it holds {memory:.2f} times the memory of the fullest other")
    said.append(_transfer_words(found.inspected, first.device))
    numbers = f"{first.device}: {'; '.join(said)}."
    more = [word for word, value in (("work", work), ("memory", memory)) if value is not None and value > MORE]
    if more:
        alone = ""
        if found.alone_share is not None:
            alone = f" For {percent_text(found.alone_share)} of the working time every other device waits for it."
        text = (
            f"The first device carries more {listed(more)}. {numbers}{alone} It scatters, gathers, "
            "computes the loss, sums the gradients and updates the weights, and the others can only wait for it."
        )
    else:
        text = f"In this run it is not: neither work nor memory of the first device stands out. {numbers}"
    condition = f"work or memory of device 0 over the largest of the others > {MORE}"
    return Answer(ROW, BOUND, text + _emulated_words(found), condition, (TABLE, found.inspected.run))


def design_answer(found: Comparison) -> Answer:
    """By the bytes that pass one device, and by how even work and memory are."""
    uses = found.uses(DDP)
    if found.ddp is None or found.inspected is None or not uses:
        return unanswered(ROW, DESIGN, _hole(found))
    count, size = volume(found.ddp)
    moved = _through_first(found.inspected)
    busy = [one.utilisation for one in uses if one.utilisation is not None]
    own = len(busy) > 1 and not any(SHARED_GPU in one.utilisation_by for one in uses)
    even = f" Its ranks are busy {listed([percent_text(one) for one in busy])} of the time." if own else ""
    if size <= 0 or moved <= 0:
        return unanswered(ROW, DESIGN, "bytes moved by DataParallel or reduced by DDP were not counted")
    numbers = (
        f"DataParallel moves {bytes_phrase(moved)} through its first device in a step, weights out and gradients back "
        f"for every other device; DDP reduces {bytes_phrase(size)} per rank in {count:.0f} all-reduces, "
        "during backward."
    )
    if moved >= size:
        verdict = (
            "With n devices the first grows as n - 1. The second does not, and a ring sends less than twice as much "
            "from each rank whatever n: no device is special in DDP."
        )
    else:
        verdict = (
            "Here DDP even moves more; it still scales better, because its bytes do not grow with the ranks and no "
            "device has to wait for a special one."
        )
    condition = (
        f"bytes through the first device of DP ({bytes_phrase(moved)}) {'>=' if moved >= size else '<'} bytes reduced "
        f"per rank of DDP ({bytes_phrase(size)})"
    )
    return Answer(ROW, DESIGN, f"{numbers} {verdict}{even}", condition, (TABLE,))


def acceptable_answer(found: Comparison) -> Answer:
    """On real devices by step times; on logical ones by the share of working time that device 0 spends alone."""
    ratio = step_ratio(found)
    if ratio is not None and not found.emulated:
        if ratio.high <= 1 + TOLERABLE:
            verdict = (
                f"Here: its step is {number_phrase(ratio)} times DDP's, so its one process and one line are enough."
            )
        elif ratio.low > 1 + TOLERABLE:
            verdict = (
                f"Not here: its step is {number_phrase(ratio)} times DDP's. It is acceptable for a trial, with few "
                "devices and a batch so large that computing hides the copies."
            )
        else:
            verdict = f"It cannot be told here: its step is {number_phrase(ratio)} times DDP's."
        return Answer(ROW, ACCEPTABLE, verdict, f"step of DP / step of DDP against {1 + TOLERABLE:g}", (TABLE,))
    if found.alone_share is None:
        return unanswered(ROW, ACCEPTABLE, _hole(found))
    share = percent_text(found.alone_share)
    limit = percent_text(TOLERABLE)
    if found.alone_share <= TOLERABLE:
        text = f"With this model and batch: only {share} of the working time is lost to the first device working alone."
    else:
        text = (
            f"Not with this model and batch, unless more than {limit} of the time may be lost: the first device works "
            f"alone for {share} of it. A larger batch lowers that share, since the copies of weights and the update do "
            "not grow with it; so DataParallel suits a short trial with large batches."
        )
    condition = (
        f"device 0 works alone in {share} of the working time, at most {limit} being acceptable; step times of logical "
        "devices are not used"
    )
    return Answer(ROW, ACCEPTABLE, text, condition, (TABLE,))


def step_ratio(found: Comparison) -> Estimate | None:
    """Step of DP over step of DDP."""
    dp, ddp = found.dp, found.ddp
    if dp is None or ddp is None or dp.step_seconds is None or ddp.step_seconds is None:
        return None
    return propagate(lambda a, b: a / b, dp.step_seconds, ddp.step_seconds)


def _split(uses: tuple[DeviceUse, ...]) -> tuple[DeviceUse | None, tuple[DeviceUse, ...]]:
    return (uses[0], uses[1:]) if uses else (None, ())


def _times(first: float | None, others: list[float | None]) -> float | None:
    known = [one for one in others if one]
    return first / max(known) if first is not None and known else None


def _through_first(inspected: Inspection) -> int:
    first = inspected.device_memory[0].device if inspected.device_memory else ""
    return sum(one.bytes for one in inspected.transfers if first in (one.source, one.target))


def _transfer_words(inspected: Inspection, first: str) -> str:
    touching = [one for one in inspected.transfers if first in (one.source, one.target)]
    size = bytes_phrase(sum(one.bytes for one in touching))
    return f"{len(touching)} of the {len(inspected.transfers)} copies of a step begin or end there ({size})"


def _emulated_words(found: Comparison) -> str:
    if not found.emulated:
        return ""
    return " Logical devices stood for GPUs: copies, memory and order are real, times are those of shared hardware."


def _hole(found: Comparison) -> str:
    missing = []
    if found.dp is None:
        missing.append("data-parallel has no usable run")
    if found.inspected is None:
        missing.append("data-parallel has no inspected run")
    if found.ddp is None:
        missing.append("ddp has no usable run")
    return "; ".join(missing) or "work and memory per device were not recorded"


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """The three questions of H1.4."""
    found = comparison(evidence)
    return bound_answer(found), design_answer(found), acceptable_answer(found)
