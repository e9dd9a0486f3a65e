"""How much steps vary: their variance over all runs of an arm, and how well the runs fix it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from scalewise.analysis.estimate import Estimate, Floats, RunMedian, estimate
from scalewise.course.selected_arms import COURSE_LEVEL

BLOCK = 20  # neighbouring steps resemble each other, so blocks of them are drawn and not single steps; at most so long
DRAWS = 1000
LEAST_BLOCKS = 4
LEAST_STEPS = 8


@dataclass(frozen=True)
class Steadiness:
    """The steps of several runs around the mean of their own run, in seconds."""

    variance: float  # mean over the runs
    relative: Estimate  # standard deviation over mean
    box_seconds: float  # the middle half of all steps, which a few long ones do not touch

    @property
    def deviation(self) -> float:
        """The root of the variance."""
        return sqrt(self.variance)


def steadiness(runs: Sequence[Sequence[float]]) -> Steadiness | None:
    """Of the steps after warm-up, run by run; None where no run is long enough."""
    known = [np.array(steps, dtype=np.float64) for steps in runs if len(steps) >= LEAST_STEPS]
    if not known:
        return None
    variance = float(np.mean([steps.var() for steps in known]))
    middle = float(np.mean([steps.mean() for steps in known]))
    every = np.concatenate(known)
    return Steadiness(
        variance=variance,
        relative=_around(sqrt(variance) / middle, known),
        box_seconds=float(np.quantile(every, 0.75) - np.quantile(every, 0.25)),
    )


def _around(value: float, runs: Sequence[Floats]) -> Estimate:
    """With the interval that drawing blocks of each run again, and the spread between runs, give it."""
    drawn = [_of_run(steps, seed) for seed, steps in enumerate(runs)]
    if min(one.low for one in drawn) <= 0:
        steps = sum(one.steps for one in drawn)
        return Estimate(value, value, value, steps, len(drawn), "steps that do not vary", COURSE_LEVEL)
    found = estimate(drawn, level=COURSE_LEVEL)
    low, high = (value * end / found.value for end in (found.low, found.high))
    return replace(found, value=value, low=low, high=high, method=f"blocks of steps drawn again; {found.method}")


def _of_run(steps: Floats, seed: int) -> RunMedian:
    """One run's relative deviation; the draws are the same in every report of these steps."""
    length = min(BLOCK, len(steps) // LEAST_BLOCKS)
    blocks = steps[: len(steps) // length * length].reshape(-1, length)
    chosen = np.random.default_rng(seed).integers(0, len(blocks), (DRAWS, len(blocks)))
    again = blocks[chosen].reshape(DRAWS, -1)
    low, high = np.quantile(again.std(axis=1) / again.mean(axis=1), (0.025, 0.975))
    value = float(steps.std() / steps.mean())
    return RunMedian(value, min(float(low), value), max(float(high), value), len(steps), COURSE_LEVEL)
