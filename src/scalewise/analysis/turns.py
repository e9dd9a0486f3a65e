"""Runs that took turns are compared by the steps they took in turn, so what the machine did meanwhile cancels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalewise.analysis.estimate import Floats, run_median
from scalewise.analysis.series import Series
from scalewise.results.run import Run

# Spread from pair to pair of two runs, measured: 0.4 to 0.5 % over 20 and 30 pairs of 160 and 200 steps of 4 to 7 ms,
# on one core of two virtual machines on which fresh processes one after the other differed by ten percent and more.
PAIR_SPREAD = 0.005
# Of the steps' ratios, at either end: one of two steps may have met a burst of other work, or a change of level.
TRIMMED_SHARE = 0.2
LEAST_STEPS = 9  # in common: fewer do not make a median worth having


@dataclass(frozen=True)
class StepsInTurn:
    """The settled steps of one run that were taken in turn, by number."""

    ring: str  # with its folder, so that rings of two campaigns are never taken for one
    numbers: NDArray[np.int64]
    seconds: Floats


@dataclass(frozen=True)
class Pair:
    """Two runs of one ring over the steps that both took in turn."""

    log_ratio: float  # of b to a
    seconds: float  # b less a
    log_error: float  # of their ratio, from the steps of this pair alone
    steps: int


def steps_in_turn(run: Run, series: Series) -> StepsInTurn | None:
    """None where the run took no turns."""
    if run.spec.turns is None or not series.in_turn:
        return None
    chosen = slice(series.warmup.steps, series.in_turn)
    numbers = np.array([row.step for row in series.rows[0][chosen]], dtype=np.int64)
    return StepsInTurn(f"{run.folder.parent}/{run.spec.turns.ring}", numbers, series.slowest_seconds[chosen])


def pair_of(a: StepsInTurn, b: StepsInTurn) -> Pair | None:
    """None where the two did not take turns with each other, or only for a few steps.

    Steps that followed each other are set against each other: medians of whole runs vary twice as much where the
    machine has two levels and each run spends about half of its steps on either.
    """
    if a.ring != b.ring:
        return None
    common, at_a, at_b = np.intersect1d(a.numbers, b.numbers, assume_unique=True, return_indices=True)
    if len(common) < LEAST_STEPS:
        return None
    seconds_a, seconds_b = a.seconds[at_a], b.seconds[at_b]
    error = run_median(seconds_b / seconds_a).log_error
    log_ratio, seconds = _trimmed_mean(np.log(seconds_b / seconds_a)), _trimmed_mean(seconds_b - seconds_a)
    return Pair(log_ratio, seconds, min(error, 1.0), len(common))


def _trimmed_mean(values: Floats) -> float:
    cut = int(TRIMMED_SHARE * len(values))
    return float(np.sort(values)[cut : len(values) - cut].mean())


def pairs_of(a: Sequence[StepsInTurn | None], b: Sequence[StepsInTurn | None]) -> tuple[Pair, ...]:
    """Every run of a with its partner among those of b; none at all where fewer than half have one."""
    partners = {one.ring: one for one in b if one is not None}
    found = [pair_of(one, partners[one.ring]) for one in a if one is not None and one.ring in partners]
    pairs = tuple(pair for pair in found if pair is not None)
    return pairs if 2 * len(pairs) >= max(len(a), len(b)) else ()
