"""Answers whether B is faster than A, by how much, or whether it cannot be told, and what could have been seen."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import expm1
from typing import Literal

from scalewise.analysis.arms import ArmRuns, arm_of, arms_of
from scalewise.analysis.caveats import Caveat, caveats_of, other_hosts
from scalewise.analysis.estimate import Estimate, estimate, level_text, normal_quantile
from scalewise.analysis.ratio import Difference, log_difference, ratio
from scalewise.analysis.work import equal_work
from scalewise.errors import BadRequest
from scalewise.records.load import LoadedSuite, Run
from scalewise.records.spec import ARM
from scalewise.units import counted

# The interval that is shown decides the verdict. It is one of 98 %: at 95 %, one comparison in twenty of two equal
# things would be called different, which would often mislead a person who compares often.
COMPARE_LEVEL = 0.98
POWER = 0.80  # probability with which the smallest visible difference would be found

Answer = Literal["faster", "slower", "cannot tell", "refused"]


@dataclass(frozen=True)
class Comparison:
    """The comparison of B with A."""

    a: str
    b: str
    level: float  # of every interval in it, and of the verdict
    answer: Answer  # B is ...
    change: Estimate | None  # B's step time over A's, minus one: -0.02 is 2 % less time
    a_step_seconds: Estimate | None
    b_step_seconds: Estimate | None
    smallest_visible: float | None  # relative difference that would have been found four times in five
    method: str
    sentence: str
    reasons: tuple[str, ...]  # of a refusal
    notes: tuple[str, ...]
    caveats: tuple[Caveat, ...]


def compare_suites(
    a: LoadedSuite, b: LoadedSuite, allow: Collection[str] = (), level: float = COMPARE_LEVEL
) -> tuple[Comparison, ...]:
    """Compares every arm that both suites have, or the only arm of each whatever it is."""
    arms_a, arms_b = arms_of(a.runs), arms_of(b.runs)
    for side, arms in ((a, arms_a), (b, arms_b)):
        if not arms and any(run.spec.rehearsed for run in side.runs):
            raise BadRequest(
                f"{side.path} was rehearsed, not measured: the other ranks were not there.",
                "Name a run of real ranks.",
            )
        if not arms and any(run.spec.examined for run in side.runs):
            raise BadRequest(
                f"{side.path} was examined, not measured: taking notes changes its times.",
                "Measure the script: scalewise run.",
            )
    if len(arms_a) == 1 and len(arms_b) == 1:
        return (_compared(arms_a[0], arms_b[0], f"{a.path}", f"{b.path}", allow, level),)
    others = {arm.spec.key(ARM): arm for arm in arms_b}
    both = [(arm, others[arm.spec.key(ARM)]) for arm in arms_a if arm.spec.key(ARM) in others]
    if not both:
        raise BadRequest(
            f"{a.path} and {b.path} have no experiment, axes and ranks in common.",
            "Name two run folders inside them to compare just those.",
        )
    return tuple(_compared(one, two, f"A: {one.label}", f"B: {two.label}", allow, level) for one, two in both)


def compare_runs(
    a: Sequence[Run],
    b: Sequence[Run],
    a_name: str = "A",
    b_name: str = "B",
    allow: Collection[str] = (),
    level: float = COMPARE_LEVEL,
) -> Comparison:
    """Compares B's runs with A's, repeats of one arm each; the interval of this level is shown, and decides."""
    if not a or not b:
        raise BadRequest("There is nothing to compare: one side has no runs.", "Name two folders that hold runs.")
    return _compared(arm_of(a), arm_of(b), a_name, b_name, allow, level)


def _compared(a: ArmRuns, b: ArmRuns, a_name: str, b_name: str, allow: Collection[str], level: float) -> Comparison:
    apart = [caveat for caveat in [other_hosts(b, (a, b))] if caveat is not None]
    caveats = (*_of_both(caveats_of(a), caveats_of(b)), *apart)
    steps_a, steps_b = (
        estimate([one.median for one in arm.measured], arm.run_cv, level) if arm.measured else None for arm in (a, b)
    )
    missing = [name for name, arm in ((a_name, a), (b_name, b)) if not arm.measured]
    reasons = tuple(f"{name} has no finished run with steps" for name in missing)
    notes: tuple[str, ...] = ()
    if not missing:
        verdict = equal_work(a.measured[0].work, b.measured[0].work, allow=allow)
        reasons, notes = (() if verdict.allowed else verdict.reasons), (verdict.reasons if verdict.allowed else ())
    if reasons or steps_a is None or steps_b is None:
        sentence = f"Not compared: {'; '.join(reasons)}."
        return Comparison(
            a_name, b_name, level, "refused", None, steps_a, steps_b, None, "", sentence, reasons, (), caveats
        )
    difference = log_difference(a.side(), b.side())
    change = ratio(b.side(), a.side(), level).through(lambda times: times - 1)
    answer = _answer(change)
    smallest = smallest_visible(difference, level)
    return Comparison(
        a=a_name,
        b=b_name,
        level=level,
        answer=answer,
        change=change,
        a_step_seconds=steps_a,
        b_step_seconds=steps_b,
        smallest_visible=smallest,
        method=difference.method_text(),
        sentence=_sentence(answer, change, smallest),
        reasons=(),
        notes=(*notes, *_advice(difference)),
        caveats=caveats,
    )


def _of_both(a: Sequence[Caveat], b: Sequence[Caveat]) -> tuple[Caveat, ...]:
    """The caveats of both sides, each with the side that it is about."""
    sides = {caveat: "A and B" if caveat in a and caveat in b else "A" if caveat in a else "B" for caveat in (*a, *b)}
    return tuple(replace(caveat, evidence=f"{side}: {caveat.evidence}") for caveat, side in sides.items())


def compare_in_turns(arms: Sequence[ArmRuns]) -> tuple[Comparison, ...]:
    """Compares every arm with the first one that it took turns with; empty if no turns were asked for."""
    found = []
    firsts: dict[tuple[int, str], ArmRuns] = {}
    for arm in arms:
        if arm.spec.turns is not None:
            first = firsts.setdefault((arm.spec.world_size, arm.spec.device), arm)
            if first is not arm and first.measured and arm.measured:
                found.append(_compared(first, arm, first.label, arm.label, ("changes",), COMPARE_LEVEL))
    return tuple(found)


def _answer(change: Estimate) -> Answer:
    if change.low <= 0 <= change.high:
        return "cannot tell"
    return "slower" if change.value > 0 else "faster"


def smallest_visible(difference: Difference, level: float = COMPARE_LEVEL) -> float:
    """The relative difference that this comparison would have found with the stated power."""
    one_sided = normal_quantile(2 * POWER - 1)
    return expm1(difference.reach(level) + one_sided * difference.error)


def _sentence(answer: Answer, change: Estimate, smallest: float) -> str:
    interval = f"{level_text(change.level)} interval {change.low * 100:+.1f} to {change.high * 100:+.1f} %"
    floor = f"a difference of {smallest * 100:.1f} % would have been seen"
    if answer == "cannot tell":
        return f"Cannot tell: B's step time differs by {change.value * 100:+.1f} % ({interval}); {floor}."
    more = "more" if answer == "slower" else "less"
    return f"B is {answer}: its step takes {abs(change.value) * 100:.1f} % {more} time ({interval}); {floor}."


def _advice(difference: Difference) -> tuple[str, ...]:
    advice = []
    if difference.turns:
        advice.append(f"They took turns step by step, in {counted(difference.turns, 'pair')}.")
    if difference.assumed_run_cv is not None:
        what = "pairs" if difference.turns else "runs"
        advice.append(
            f"With so few {what} the spread between {what} is partly assumed "
            f"({difference.assumed_run_cv * 100:.1f} %); five repeats or more of each let it be measured."
        )
    if difference.apart:
        advice.append(
            "A and B were measured one after the other, so a drift of the machine is allowed for; "
            "as arms of one suite they would be interleaved, or take turns step by step."
        )
    return tuple(advice)
