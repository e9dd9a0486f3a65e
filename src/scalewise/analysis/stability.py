"""Measures how steadily a run trained: lost steps, lost gradients, and the loss against a reference.

The word rests on the numbers of training. Step times are shown beside it, but their spread never makes a run unstable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from statistics import mean, median
from typing import Literal

from scalewise.analysis.figures import RunFigures
from scalewise.records.inspection import GradientRow

Word = Literal["stable", "drifts", "unstable", "diverged", "not trained"]

# Half the distance between two neighbouring numbers at one, for each precision.
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
# Three roundings per layer (input, weight, output) for two layers, one for the loss, one carried on by a step.
TOLERATED_ROUNDINGS = 8
ALL_BUT_NONE = 0.99  # share of gradients that are zero from which on nothing is left to train with
LATE_SKIPS = 0.05  # share of the later steps: a scaler that grows its scale loses one step in 2000
SETTLING = 1 / 3  # of the steps: in these a scaler still searches for its scale


@dataclass(frozen=True)
class LossCurve:
    """A loss curve compared with its reference, over the steps that both recorded."""

    steps: int
    largest_distance: float  # relative to the reference, at any step
    tolerance: float  # that rounding in this precision explains

    @property
    def same(self) -> bool:
        """Tells whether the curves agree to the last bit."""
        return self.largest_distance == 0.0

    @property
    def within(self) -> bool:
        """Tells whether the curves are no further apart than rounding explains."""
        return self.largest_distance <= self.tolerance


@dataclass(frozen=True)
class Gradients:
    """The gradients of an inspected run, over its steps."""

    zero_share: float  # median over the steps
    non_finite_steps: int
    norm: float  # median over the steps with a finite one
    steps: int


@dataclass(frozen=True)
class Stability:
    """The figures, the word for them, and the rule that chose the word."""

    word: Word
    condition: str
    steps: int
    skipped_steps: int
    late_skipped_steps: int  # after the first third
    non_finite_steps: int
    scales: tuple[float, ...]  # of the GradScaler, where it was read
    scale_cuts: int
    curve: LossCurve | None
    gradients: Gradients | None
    variation: float  # of the step times: standard deviation over mean
    p95_over_median: float


def tolerance_of(precision: Sequence[str]) -> float:
    """The relative error of a loss that rounding explains, against exact arithmetic; the coarsest type counts."""
    names = [word for text in precision for word in text.split()]
    return TOLERATED_ROUNDINGS * max((ROUNDOFF[name] for name in names if name in ROUNDOFF), default=0.0)


def loss_curve(losses: Sequence[float | None], reference: Sequence[float | None], tolerance: float) -> LossCurve | None:
    """The two curves compared step by step; None if no step has both losses."""
    pairs = [(a, b) for a, b in zip(losses, reference, strict=False) if a is not None and b is not None]
    if not pairs:
        return None
    return LossCurve(len(pairs), max(_distance(a, b) for a, b in pairs), tolerance)


def gradients_of(rows: Sequence[GradientRow]) -> Gradients | None:
    """Statistics of the gradients that an inspected run's optimizer steps used; None if there are none."""
    filled = [row for row in rows if row.elements]
    if not filled:
        return None
    norms = [row.norm for row in filled if not row.non_finite]
    return Gradients(
        zero_share=median(row.zeros / row.elements for row in filled),
        non_finite_steps=sum(row.non_finite > 0 for row in filled),
        norm=median(norms) if norms else float("nan"),
        steps=len(filled),
    )


def stability(
    runs: Sequence[RunFigures], reference: RunFigures | None = None, gradients: Sequence[GradientRow] = ()
) -> Stability | None:
    """The stability of the repeats of one arm: counts are those of the worst run; None if there is no run."""
    if not runs:
        return None
    curves = [_curve(run, reference) for run in runs] if reference else []
    found = [curve for curve in curves if curve]
    worst = max(runs, key=lambda run: (run.non_finite_steps, run.skipped_steps))
    curve = max(found, key=lambda one: one.largest_distance, default=None)
    health = gradients_of(gradients)
    late = _late_skips(worst)
    word, condition = _word(worst, late, curve, health)
    scales = tuple(scale for scale in worst.scales if scale is not None)
    return Stability(
        word=word,
        condition=condition,
        steps=len(worst.step_seconds),
        skipped_steps=worst.skipped_steps,
        late_skipped_steps=late,
        non_finite_steps=worst.non_finite_steps,
        scales=scales,
        scale_cuts=sum(after < before for before, after in pairwise(scales)),
        curve=curve,
        gradients=health,
        variation=mean(run.variation for run in runs),
        p95_over_median=mean(run.p95_over_median for run in runs),
    )


def _curve(run: RunFigures, reference: RunFigures | None) -> LossCurve | None:
    return loss_curve(run.losses, reference.losses, tolerance_of(run.precision)) if reference else None


def _late_skips(run: RunFigures) -> int:
    """The skipped steps that settling does not explain: each early one halved the scale."""
    early = int(len(run.step_seconds) * SETTLING)
    known = [(step, scale) for step, scale in enumerate(run.scales) if scale]
    halvings = [
        round(log2(before / after)) for (step, before), (_, after) in pairwise(known) if step < early and after < before
    ]
    return max(0, run.skipped_steps - sum(halvings))


def _distance(value: float, reference: float) -> float:
    if value == reference:
        return 0.0
    return abs(value - reference) / abs(reference) if reference else float("inf")


def _word(run: RunFigures, late: int, curve: LossCurve | None, health: Gradients | None) -> tuple[Word, str]:
    """The word and condition of the first rule that holds, from the worst to the best."""
    steps = len(run.step_seconds)
    if run.skipped_steps >= steps:
        return "not trained", f"all {steps} steps were skipped"
    if health and health.zero_share >= ALL_BUT_NONE:
        return "not trained", f"share of zero gradients {health.zero_share:.1%} >= {ALL_BUT_NONE:.0%}"
    if run.non_finite_steps > run.skipped_steps:
        return "diverged", f"{run.non_finite_steps} losses not finite, {run.skipped_steps} of those steps skipped"
    if late > LATE_SKIPS * steps:
        return "unstable", f"{late} of {steps} steps skipped after the scale should have settled (> {LATE_SKIPS:.0%})"
    if curve and not curve.within:
        distance = f"{curve.largest_distance:.1e} > {curve.tolerance:.1e}"
        return "drifts", f"distance of the loss from fp32 {distance} ({TOLERATED_ROUNDINGS} roundings)"
    return "stable", _stable_condition(curve)


def _stable_condition(curve: LossCurve | None) -> str:
    steady = "no loss that is not finite, no late skipped steps"
    if curve is None:
        return steady
    return f"{steady}, distance of the loss from fp32 {curve.largest_distance:.1e} <= {curve.tolerance:.1e}"
