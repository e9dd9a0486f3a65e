"""P7.3: whether mixed precision pays here, why there is a GradScaler, and what happens without one."""

from scalewise.analysis.memory_parts import MemoryChange
from scalewise.analysis.stability import Stability, gradients_of, stability
from scalewise.analysis.summary import ArmRow
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.arms import Contrast, change_phrase, contrast, figures_of, hole, holes, step_phrase, usable
from scalewise.explain.evidence import Evidence
from scalewise.explain.memory import (
    change_of,
    memory_word,
    parts_of,
    parts_phrase,
    passing_words,
    peak_of,
    rebuilt_words,
    size_change_phrase,
)
from scalewise.explain.words import percent_text
from scalewise.units import seconds_text

ROW = "P7.3"
WHY_MIXED = "Why mixed precision: is it faster here, and does it need less memory?"
WHY_SCALER = "Why is there a GradScaler?"
WITHOUT = "What happens without GradScaler?"
HALVES = ("float16", "bfloat16")
RESCUED = 0.01  # share of the gradients: fewer lost ones are no reason for a scaler
SMALLEST_HALF = 2.0**-24  # the smallest positive float16


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """To the three questions."""
    return why_mixed(evidence), why_scaler(evidence), without_scaler(evidence)


def why_mixed(evidence: Evidence) -> Answer:
    """Time and memory of the half precisions beside float32."""
    base = usable(evidence, "amp", precision="float32")
    if base is None:
        return unanswered(ROW, WHY_MIXED, hole(evidence, "amp", precision="float32"))
    said, conditions = [], []
    for name in HALVES:
        row = usable(evidence, "amp", precision=name)
        found = contrast(evidence, base, row)
        if row is None or found is None:
            said.append(f"{name}: not told, {hole(evidence, 'amp', precision=name)}.")
            continue
        said.append(f"{name}: {step_phrase(row)}, {time_words(found, base, row)}")
        conditions.append(f"{name}: {found.condition}")
    if not conditions:
        return unanswered(ROW, WHY_MIXED, holes(evidence, "amp", "precision", HALVES))
    said = [f"float32: {step_phrase(base)}.", *said, *_memory_of_all(evidence)]
    return Answer(ROW, WHY_MIXED, " ".join(said), "; ".join(conditions), ("p7-3-amp",))


def time_words(found: Contrast, base: ArmRow, row: ArmRow) -> str:
    """The verdict on the time, and the phases that made it."""
    if found.verdict == "cannot tell":
        visible = 100 * found.smallest_visible
        return f"no difference that can be told ({change_phrase(found)}; {visible:.0f} % would have been seen)."
    phases = phase_changes(base, row)
    return f"{change_phrase(found)}{_where_it_went(base, row)}{f' ({phases})' if phases else ''}."


def _where_it_went(base: ArmRow, row: ArmRow) -> str:
    """Products against bookkeeping: forward and backward hold the first with its casts, the rest the scaler's work."""
    products = _change(base, row, "forward", "backward")
    others = _change(base, row, "optimizer", "rest")
    if products is None or others is None:
        return ""
    if products > 0:
        return f": the products in half precision, casts included, take {seconds_text(products)} longer here"
    if others > -products:
        return (
            f": the products save {seconds_text(-products)}, but scaling and stepping take {seconds_text(others)} more"
        )
    return f": the products in half precision, casts included, save {seconds_text(-products)}"


def _change(base: ArmRow, row: ArmRow, *phases: str) -> float | None:
    pairs = [(base.phase_seconds.get(name), row.phase_seconds.get(name)) for name in phases]
    known = [after - before for before, after in pairs if before is not None and after is not None]
    return sum(known) if len(known) == len(phases) else None


def phase_changes(base: ArmRow, row: ArmRow) -> str:
    """How much each phase gained or lost, largest first."""
    changes = {}
    for name, before in base.phase_seconds.items():
        after = row.phase_seconds.get(name)
        if before is not None and after is not None:
            changes[name] = after - before
    largest = sorted(changes.items(), key=lambda item: -abs(item[1]))[:3]
    return ", ".join(f"{name} {'+' if change > 0 else '-'}{seconds_text(abs(change))}" for name, change in largest)


def _memory_of_all(evidence: Evidence) -> list[str]:
    """Told once where both half precisions say the same."""
    words = {name: memory_words(evidence, name) for name in HALVES}
    known = {name: text for name, text in words.items() if text}
    if len(known) == len(HALVES) and len({text.split(" (")[0] for text in known.values()}) == 1:
        return [f"Memory of both: {known[HALVES[0]]}"]
    return [f"Memory, {name}: {text}" for name, text in known.items()]


def memory_words(evidence: Evidence, precision: str) -> str:
    """How the peak changed against float32, and which parts did it; empty where memory was not seen."""
    change = change_of(*(parts_of(evidence, "amp", precision=name) for name in ("float32", precision)))
    base = parts_of(evidence, "amp", precision="float32")
    if change and base and base.peak_bytes and change.peak_bytes is not None:
        before, after = base.peak_bytes, base.peak_bytes + change.peak_bytes
    else:
        peaks = [peak_of(evidence, "amp", precision=name) for name in ("float32", precision)]
        if peaks[0] is None or peaks[1] is None or peaks[0].witness != peaks[1].witness:
            return ""
        before, after = peaks[0].bytes, peaks[1].bytes
    why = f" ({parts_phrase(change)})" if change else ""
    if memory_word(before, after) == "the same":
        return f"the same peak{why}."
    passing = passing_words(change, evidence.inspection("amp", precision=precision))
    rebuilt = rebuilt_words(base, parts_of(evidence, "amp", precision=precision))
    return f"{size_change_phrase(after - before)} at the peak{why}.{_weighed(change, passing)}{rebuilt}"


def _weighed(change: MemoryChange | None, passing: str) -> str:
    """Copies of weights against halved activations, where both are there."""
    if change is None:
        return ""
    copies, activations = change.parts["half-precision copies"], change.parts["activations"]
    if copies > 0 and copies > -activations:
        return " The copies of the weights outweigh what shorter activations save: the batch is small for this model."
    if passing and change.largest == "work in progress":
        return f" The work in progress is {passing}."
    if activations < 0 and copies < -activations and (change.peak_bytes or 0) < 0:
        return " Shorter activations save more than the copies of the weights take."
    return ""


def why_scaler(evidence: Evidence) -> Answer:
    """Gradients lost to underflow with and without it."""
    shares = {}
    for value in (1, 0):
        inspected = evidence.inspection("scaler", scaler=value)
        found = gradients_of(inspected.gradients) if inspected else None
        if found is None:
            missing = hole(evidence, "scaler", scaler=value) if inspected is None else "its gradients were not seen"
            return unanswered(ROW, WHY_SCALER, missing)
        shares[value] = found.zero_share
    natural = _natural_share(evidence)
    lost = shares[0] - shares[1]
    counted = (
        f"{percent_text(shares[0])} of the float16 gradients are exactly zero without the scaler and "
        f"{percent_text(shares[1])} with it{natural}"
    )
    if lost > RESCUED:
        text = (
            f"{counted}. float16 knows no positive number below {SMALLEST_HALF:.1e}; the scaler multiplies the loss "
            f"({_scale_words(evidence)}), which lifts the gradients above that, and divides them again in float32."
        )
        condition = f"share of zeros falls by {percent_text(lost)} > {percent_text(RESCUED)}"
    else:
        text = f"{counted}: these gradients are large enough for float16, so the scaler rescues nothing here."
        condition = f"share of zeros falls by {percent_text(lost)} <= {percent_text(RESCUED)}"
    return Answer(ROW, WHY_SCALER, text, condition, ("p7-3-scaler",))


def _natural_share(evidence: Evidence) -> str:
    """Zeros that are there in float32, too: inactive units, not underflow."""
    inspected = evidence.inspection("scaler-reference")
    found = gradients_of(inspected.gradients) if inspected else None
    return f" ({percent_text(found.zero_share)} in float32: inactive units)" if found else ""


def _scale_words(evidence: Evidence) -> str:
    figures = figures_of(evidence, usable(evidence, "scaler", scaler=1))
    scales = [scale for scale in figures[0].scales if scale] if figures else []
    if not scales:
        return "its scale was not seen"
    first, last = scales[0], scales[-1]
    return f"by {first:g}, kept to the end" if first == last else f"by {first:g} at first, {last:g} at the end"


def scaler_stability(evidence: Evidence, scaler: int) -> Stability | None:
    """Of the float16 run with or without the scaler, beside float32."""
    reference = figures_of(evidence, usable(evidence, "scaler-reference"))
    inspected = evidence.inspection("scaler", scaler=scaler)
    return stability(
        figures_of(evidence, usable(evidence, "scaler", scaler=scaler)),
        reference[0] if reference else None,
        inspected.gradients if inspected else (),
    )


def without_scaler(evidence: Evidence) -> Answer:
    """The word that the run without it earns, beside the run with it."""
    bare, scaled = scaler_stability(evidence, 0), scaler_stability(evidence, 1)
    if bare is None or scaled is None:
        return unanswered(ROW, WITHOUT, holes(evidence, "scaler", "scaler", (1, 0)))
    lines = [f"Without the scaler the run is called {bare.word}{_departs(bare)}."]
    lines.append(f"With the scaler it is called {scaled.word}{_departs(scaled)}, {skips_phrase(scaled)}.")
    if bare.word == scaled.word:
        lines.append("For these gradients the scaler makes no difference that shows.")
    return Answer(
        ROW, WITHOUT, " ".join(lines), f"without: {bare.condition}; with: {scaled.condition}", ("p7-3-scaler",)
    )


def _departs(found: Stability) -> str:
    """How far its loss lies from float32's at most."""
    return (
        f": its loss departs from float32's by up to {percent_text(found.curve.largest_distance)}"
        if found.curve
        else ""
    )


def skips_phrase(found: Stability) -> str:
    """`2 of 40 steps skipped while it looked for its scale`."""
    if not found.skipped_steps:
        return f"none of {found.steps} steps skipped"
    early = found.skipped_steps - found.late_skipped_steps
    return f"{found.skipped_steps} of {found.steps} steps skipped, {early} of them while it looked for its scale"
