"""Selects a suite's arms for answers: the arm with figures, its runs, why it is missing, and how two differ."""

from dataclasses import dataclass
from statistics import median_low
from typing import Any, Literal

from scalewise.analysis.arms import arm_of
from scalewise.analysis.comparison import compare_runs
from scalewise.analysis.estimate import CONFIDENCE, Estimate, level_text, percent_phrase
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.figures import RunFigures
from scalewise.analysis.ratio import ratio, ratio_of, seconds_between
from scalewise.analysis.summary import ArmRow
from scalewise.course.seen import label_refusal
from scalewise.plan.words import value_text
from scalewise.records.load import Run

Verdict = Literal["faster", "slower", "cannot tell"]
COURSE_LEVEL = CONFIDENCE  # level of all intervals and all verdicts in a course report, so that both agree
CHANGE_NO_STEP = ("STEPS", "WARMUP", "SEED")  # constants of the course's scripts that do not change a step's work
NOTHING_AT_ZERO = ("DELAY", "IMBALANCE")
REFUSED = "refused: "  # beginning of the reason if a script did not do what its row says
MEANT = ("precision", "changes")  # differences between two arms that are meant to be compared


@dataclass(frozen=True)
class Contrast:
    """The effect on the step of what differs between arms A and B."""

    verdict: Verdict  # B is ...
    change: Estimate  # B's step time over A's, less one
    seconds: Estimate  # B's step time less A's
    smallest_visible: float  # smallest relative difference that would have been seen

    @property
    def condition(self) -> str:
        """The rule behind the verdict, with its numbers."""
        change, level = f"change of the step time {percent_phrase(self.change)}", level_text(self.change.level)
        if self.verdict == "cannot tell":
            return f"{change} ({level}): the interval holds 0"
        return f"{change} ({level}): the interval lies {'above' if self.verdict == 'slower' else 'below'} 0"


def usable(evidence: Evidence, experiment: str, *, change: str = "none", **axes: Any) -> ArmRow | None:
    """Returns the arm that has figures and did what its label says; of several, the one with the most ranks."""
    rows = evidence.rows(experiment, change=change, **axes)
    known = (row for row in reversed(rows) if row.step_seconds is not None)
    return next((row for row in known if not label_refusal(evidence, row)), None)


def hole(evidence: Evidence, experiment: str, **axes: Any) -> str:
    """Returns why that arm has no figures, for a sentence: `experiment amp, precision float16 failed (no memory)`."""
    name = ", ".join([f"experiment {experiment}", *(f"{key} {value_text(value)}" for key, value in axes.items())])
    rows = evidence.rows(experiment, **axes)
    refused = next((reason for row in rows if (reason := label_refusal(evidence, row))), "")
    if refused:
        return f"{REFUSED}{refused}"
    reason = next((row.reason for row in rows if row.reason), "")
    if reason:
        return f"{name} failed ({reason.rstrip('.')})"
    return f"{name} is not finished" if rows else f"{name} was not run"


def numbers_along(evidence: Evidence, experiment: str, axis: str, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the whole numbers of an axis as they were run, ascending; the course's own if none was run."""
    found = evidence.experiment(experiment)
    texts = {str(row.axes[axis]) for row in (found.rows if found else ()) if axis in row.axes}
    return tuple(sorted(int(text) for text in texts if text.isdecimal())) or wanted


def runs_of(evidence: Evidence, row: ArmRow) -> tuple[Run, ...]:
    """Returns the arm's runs, usable or not."""
    return tuple(run for name in row.run_names if (run := evidence.run(name)) is not None)


def figures_of(evidence: Evidence, row: ArmRow | None) -> tuple[RunFigures, ...]:
    """Returns the figures of the arm's usable runs."""
    if row is None:
        return ()
    found = [one for experiment in evidence.analysis.experiments for one in experiment.runs]
    return tuple(one for one in found if one.name in row.run_names)


def contrast(evidence: Evidence, a: ArmRow | None, b: ArmRow | None) -> Contrast | None:
    """Returns what B changes against A on as many ranks; None if one is missing or their work differs."""
    if a is None or b is None or a.ranks != b.ranks:
        return None
    runs_a, runs_b = runs_of(evidence, a), runs_of(evidence, b)
    if not runs_a or not runs_b:
        return None
    found = compare_runs(runs_a, runs_b, allow=MEANT, level=COURSE_LEVEL)
    if found.change is None or found.smallest_visible is None or found.answer == "refused":
        return None
    return Contrast(found.answer, found.change, _seconds(runs_a, runs_b), found.smallest_visible)


def step_ratio(evidence: Evidence, a: ArmRow | None, b: ArmRow | None) -> Estimate | None:
    """Returns A's step time over B's, from their runs, paired if these took turns; None if one is missing.

    Interleaved runs are paired as well. Two arms are compared by this ratio, never by whether their intervals overlap.
    The
    caller must know whether their work is the same, as some questions ask for ratios of different work.
    """
    if a is None or b is None or a.step_seconds is None or b.step_seconds is None:
        return None
    sides = [arm_of(runs) for runs in (runs_of(evidence, a), runs_of(evidence, b)) if runs]
    if len(sides) < 2 or not all(one.measured for one in sides):
        return ratio_of(a.step_seconds.at(COURSE_LEVEL), b.step_seconds.at(COURSE_LEVEL))
    return ratio(sides[0].side(), sides[1].side(), COURSE_LEVEL)


def all_reduces(evidence: Evidence, row: ArmRow) -> tuple[int, int]:
    """Returns (count, bytes) of the all-reduces of a typical optimizer step on one rank.

    This is the median over steps, as DDP has different buckets in its very first ones.
    """
    ranks = [rank for run in runs_of(evidence, row) if run.measured for rank in run.ranks if rank.steps]
    seen = [step.collectives.get("all_reduce", (0, 0)) for step in (ranks[0].steps if ranks else ())]
    if not seen:
        return 0, 0
    return median_low(count for count, _ in seen), median_low(size for _, size in seen)


def _seconds(a: tuple[Run, ...], b: tuple[Run, ...]) -> Estimate:
    one, two = arm_of(a), arm_of(b)
    return seconds_between(one.side(), two.side(), COURSE_LEVEL)
