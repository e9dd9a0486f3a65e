"""The variation of steps: their variance over all runs of an arm, and how well the runs determine it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from scalewise.analysis.estimate import Estimate, Floats, RunMedian, estimate
from scalewise.analysis.ratio import Equivalence
from scalewise.course.homework1.busy_devices import DDP, DP
from scalewise.course.selected_arms import COURSE_LEVEL

BLOCK = 20  # most steps of a block; blocks are drawn and not single steps, since neighbouring steps resemble each other
DRAWS = 1000
LEAST_BLOCKS = 4
LEAST_STEPS = 8


@dataclass(frozen=True)
class Steadiness:
    """The variation of the steps of several runs around the mean of their own run, in seconds."""

    variance: float  # mean over the runs
    relative: Estimate  # standard deviation over mean
    box_seconds: float  # the middle half of all steps, which a few long ones do not touch

    @property
    def deviation(self) -> float:
        """The root of the variance."""
        return sqrt(self.variance)


def steadiness(runs: Sequence[Sequence[float]]) -> Steadiness | None:
    """Returns the steadiness of the steps after warm-up, given run by run; None if no run is long enough."""
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
    """Returns the value with an interval, from blocks of each run drawn again and from the spread between runs."""
    drawn = [_of_run(steps, seed) for seed, steps in enumerate(runs)]
    if min(one.low for one in drawn) <= 0:
        steps = sum(one.steps for one in drawn)
        return Estimate(value, value, value, steps, len(drawn), "steps that do not vary", COURSE_LEVEL)
    found = estimate(drawn, level=COURSE_LEVEL)
    low, high = (value * end / found.value for end in (found.low, found.high))
    return replace(found, value=value, low=low, high=high, method=f"blocks of steps drawn again; {found.method}")


def _of_run(steps: Floats, seed: int) -> RunMedian:
    """The relative deviation of one run; the draws are the same in every report of these steps."""
    length = min(BLOCK, len(steps) // LEAST_BLOCKS)
    blocks = steps[: len(steps) // length * length].reshape(-1, length)
    chosen = np.random.default_rng(seed).integers(0, len(blocks), (DRAWS, len(blocks)))
    again = blocks[chosen].reshape(DRAWS, -1)
    low, high = np.quantile(again.std(axis=1) / again.mean(axis=1), (0.025, 0.975))
    value = float(steps.std() / steps.mean())
    return RunMedian(value, min(float(low), value), max(float(high), value), len(steps), COURSE_LEVEL)


def steadier(word: Equivalence, times: float) -> str:
    """A sentence on which method has the steadier steps; `times` is DataParallel's relative deviation over DDP's."""
    if word == "cannot tell":
        return "Which of them has the steadier steps cannot be told from these runs."
    if word == "equal within margin":
        return "Both have equally steady steps."
    return f"{DDP if times > 1 else DP} has the steadier steps."


def why_steadier(word: Equivalence, times: float) -> str:
    """The reason why steps can vary: for the unsteadier method if they differ, else for both."""
    if word != "different":
        return "A delay in DataParallel's one process delays all devices; in DDP a delay on any rank delays all ranks."
    if times > 1:
        return (
            "DataParallel's single process hands out the batch, starts every device and collects the results, so a "
            "delay in that process delays all devices."
        )
    return (
        "A step of DDP ends when the slowest rank has exchanged its gradients, so a delay on one rank makes the step "
        "of all ranks longer."
    )
