"""P7.1: why the loss is divided, why synchronisation is skipped, and what happens when no_sync() is taken away."""

from dataclasses import dataclass, replace

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.inspection import Inspection
from scalewise.analysis.stability import ROUNDOFF, TOLERATED_ROUNDINGS, Curve, curve_of
from scalewise.analysis.summary import ArmRow
from scalewise.explain.answer import Answer, unanswered
from scalewise.explain.arms import (
    Contrast,
    all_reduces,
    change_phrase,
    contrast,
    figures_of,
    hole,
    holes,
    step_phrase,
    usable,
)
from scalewise.explain.evidence import Evidence
from scalewise.explain.words import bytes_phrase, seconds_phrase
from scalewise.records.inspection import GradientRow
from scalewise.units import three_digits

ROW = "P7.1"
WHY_DIVIDE = "Why is the loss divided by ACCUM_STEPS?"
WHY_SKIP = "Why is synchronisation skipped in all but the last micro-batch?"
WITHOUT = "What happens if no_sync() is removed?"
EARLY = 5  # steps: a wrong gradient shows after the first update, rounding has not grown yet
EXACT = 1e-3  # relative: a gradient ratio this near to a whole number is that number


@dataclass(frozen=True)
class Division:
    """The first gradient with the loss divided and not; both start from the same weights."""

    micro_batches: float
    divided: GradientRow
    whole: GradientRow

    @property
    def norm_ratio(self) -> float:
        """Undivided over divided."""
        return self.whole.norm / self.divided.norm

    @property
    def same_direction(self) -> bool:
        """Whether the projection grew as the norm did, so that only the length differs."""
        if not self.divided.projection:
            return False
        return abs(self.whole.projection / self.divided.projection / self.norm_ratio - 1) < EXACT


def first_gradient(inspection: Inspection | None) -> GradientRow | None:
    """Of the first step that has a gradient with a length."""
    rows = inspection.gradients if inspection else ()
    return next((row for row in rows if row.norm and not row.non_finite), None)


def division_of(evidence: Evidence) -> Division | None:
    """None where one of the two was not inspected."""
    row = usable(evidence, "division", divide=0)
    divided, whole = (first_gradient(evidence.inspection("division", divide=value)) for value in (1, 0))
    if row is None or row.micro_batches is None or divided is None or whole is None:
        return None
    return Division(row.micro_batches, divided, whole)


def answers(evidence: Evidence) -> tuple[Answer, ...]:
    """To the three questions."""
    return why_divide(evidence), why_skip(evidence), without_no_sync(evidence)


def why_divide(evidence: Evidence) -> Answer:
    """The gradient with and without the division, and what the loss did."""
    found = division_of(evidence)
    if found is None:
        missing = holes(evidence, "division", "divide", (1, 0)) or "the gradients of experiment division were not seen"
        return unanswered(ROW, WHY_DIVIDE, missing)
    count, ratio = found.micro_batches, found.norm_ratio
    measured = (
        f"Without the division the first gradient has norm {found.whole.norm:.4g} instead of {found.divided.norm:.4g}: "
        f"{three_digits(ratio)} times as long with {count:g} micro-batches a step"
    )
    gap = abs(ratio / count - 1)
    if gap < EXACT:
        direction = "in the same direction, " if found.same_direction else ""
        reason = (
            f"{direction}so the optimizer steps {count:g} times too far, as if LR were {count:g} times as large. "
            f"backward() adds gradients up; only the sum of losses divided by {count:g} has the gradient of the mean "
            f"over the whole batch."
        )
        condition = f"|norm ratio / micro-batches - 1| = {gap:.1e} < {EXACT:g}"
    else:
        reason = (
            f"not {count:g} times, as adding up equal shares would give. Either the runs did not begin alike or the "
            f"script does not divide where it should."
        )
        condition = f"|norm ratio / micro-batches - 1| = {gap:.1e} >= {EXACT:g}"
    return Answer(ROW, WHY_DIVIDE, f"{measured}, {reason}{_training(evidence)}", condition, ("p7-1-accumulation",))


def _training(evidence: Evidence) -> str:
    """What the longer steps did to the loss of a micro-batch; empty where it was not seen."""
    ends = []
    for value in (1, 0):
        row = usable(evidence, "division", divide=value)
        if row is None or row.last_loss is None or not row.micro_batches:
            return ""
        ends.append(row.last_loss / (1 if value else row.micro_batches))
    divided, whole = ends
    broken = usable(evidence, "division", divide=0)
    if broken and broken.non_finite_steps:
        return f" Training then diverged: {broken.non_finite_steps} losses were not finite."
    if whole == divided:
        return f" The loss at the end is the same ({divided:.4g})."
    word = "above" if whole > divided else "below"
    return f" The loss of a sample ends at {whole:.4g}, {word} the {divided:.4g} of the divided one."


def why_skip(evidence: Evidence) -> Answer:
    """One all-reduce of the sum gives what an all-reduce of every term gives."""
    synced, plain = (usable(evidence, "no-sync", no_sync=value) for value in (1, 0))
    if synced is None or plain is None:
        return unanswered(ROW, WHY_SKIP, holes(evidence, "no-sync", "no_sync", (1, 0)))
    counts = [all_reduces(evidence, row) for row in (synced, plain)]
    if not counts[0][0] or not counts[1][0]:
        return unanswered(ROW, WHY_SKIP, "no all-reduce was counted (a single rank has nothing to synchronise)")
    less = counts[1][1] / counts[0][1]
    curve = _same_training(evidence, synced, plain)
    moved = (
        f"An optimizer step moves {bytes_phrase(counts[0][1])} in {counts[0][0]:g} all-reduces with no_sync() and "
        f"{bytes_phrase(counts[1][1])} in {counts[1][0]:g} without: {three_digits(less)} times as much"
    )
    if curve is None:
        return Answer(ROW, WHY_SKIP, f"{moved}.", "no losses to compare", ("p7-1-accumulation",))
    early = _same_training(evidence, synced, plain, EARLY)
    if early and early.within and not curve.within:
        text = (
            f"{moved}, for the same training: the first {EARLY} losses differ by {early.largest_distance:.1e} at most. "
            f"Averaging over ranks is linear, so one all-reduce of the sum replaces one of every term. Sums in another "
            f"order round differently, and training lets that grow, to {curve.largest_distance:.1e} in "
            f"{curve.steps} steps."
        )
        return Answer(ROW, WHY_SKIP, text, _early_rule(early), ("p7-1-accumulation",))
    if curve.within:
        text = (
            f"{moved}, for the same training: the two loss curves differ by {curve.largest_distance:.1e} at most. "
            f"Averaging over ranks is linear, so one all-reduce of the sum replaces one of every term; the gradients "
            f"before the last micro-batch are used by nobody."
        )
    else:
        text = (
            f"{moved}. But the two loss curves differ by {curve.largest_distance:.1e}, more than float32 rounding "
            f"explains: these runs did not train the same, so the saving is not free here."
        )
    relation = "<=" if curve.within else ">"
    condition = f"largest distance of the losses {curve.largest_distance:.1e} {relation} {curve.tolerance:.1e}"
    return Answer(ROW, WHY_SKIP, text, condition, ("p7-1-accumulation",))


def _early_rule(early: Curve) -> str:
    return (
        f"distance of the first {EARLY} losses {early.largest_distance:.1e} <= {early.tolerance:.1e}: a wrong gradient "
        "would show in the second"
    )


def _same_training(evidence: Evidence, a: ArmRow, b: ArmRow, first: int | None = None) -> Curve | None:
    """Over all steps, or the first ones alone."""
    one, two = figures_of(evidence, a), figures_of(evidence, b)
    if not one or not two:
        return None
    losses = one[0].losses[:first]
    # Other orders of adding round differently, and each step carries the last one's difference on.
    tolerance = TOLERATED_ROUNDINGS * ROUNDOFF["float32"] * max(len(losses), 1)
    return curve_of(two[0].losses[:first], losses, tolerance)


def without_no_sync(evidence: Evidence) -> Answer:
    """What its removal costs, in milliseconds per step."""
    synced, plain = (usable(evidence, "no-sync", no_sync=value) for value in (1, 0))
    found = contrast(evidence, synced, plain)
    if synced is None or plain is None or found is None:
        missing = holes(evidence, "no-sync", "no_sync", (1, 0)) or hole(evidence, "no-sync")
        return unanswered(ROW, WITHOUT, missing)
    times = f"The step takes {step_phrase(plain)} without no_sync() and {step_phrase(synced)} with it"
    more = all_reduces(evidence, plain)[0] - all_reduces(evidence, synced)[0]
    return Answer(
        ROW, WITHOUT, f"{times}: {_price(found, more)}", found.condition, ("p7-1-accumulation", "p7-1-anatomy")
    )


def _price(found: Contrast, more: int) -> str:
    if found.verdict == "slower":
        each = f", {seconds_phrase(_shared(found, more))} for each of the {more:g} further all-reduces" if more else ""
        return (
            f"{change_phrase(found)}{each}. Every backward() then waits for all ranks, for gradients nobody uses yet."
        )
    if found.verdict == "faster":
        return (
            f"{change_phrase(found)} without it. Here synchronising more often is not slower, so its {more:g} further "
            f"all-reduces hide behind computation or cost less than what no_sync() itself does."
        )
    return (
        f"no difference that can be told ({change_phrase(found)}; {100 * found.smallest_visible:.0f} % would have been "
        f"seen), although {more:g} more all-reduces are issued: here they are too cheap to show."
    )


def _shared(found: Contrast, count: float) -> Estimate:
    """The difference spread evenly over so many calls."""
    whole = found.seconds
    return replace(whole, value=whole.value / count, low=whole.low / count, high=whole.high / count)
