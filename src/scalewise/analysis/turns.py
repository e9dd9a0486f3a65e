"""Compares runs that took turns by the steps that they took in turn, so that changes of the machine cancel."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalewise.analysis.estimate import Floats, run_median
from scalewise.analysis.series import Series
from scalewise.records.load import Run

# Spread from pair to pair of two runs, measured: 0.4 to 0.5 % over 20 and 30 pairs of 160 and 200 steps of 4 to 7 ms,
# on one core of two virtual machines on which fresh processes one after the other differed by ten percent and more.
PAIR_SPREAD = 0.005
# Share of the steps' ratios, at either end: one of two steps may have met other work, or a change of speed.
TRIMMED_SHARE = 0.2
LEAST_STEPS = 9  # in common: fewer do not give a useful median


@dataclass(frozen=True)
class StepsInTurn:
    """The settled steps of one run that were taken in turn, by number."""

    ring: str  # with its folder, so that rings of two campaigns are never confused
    numbers: NDArray[np.int64]
    seconds: Floats


@dataclass(frozen=True)
class Pair:
    """Two runs of one ring over the steps that both took in turn."""

    log_ratio: float  # of b to a
    seconds: float  # b minus a
    log_error: float  # of their ratio, from the steps of this pair alone
    steps: int


def steps_in_turn(run: Run, series: Series) -> StepsInTurn | None:
    """The settled steps that the run took in turn; None if it took no turns."""
    if run.spec.turns is None or not series.in_turn:
        return None
    chosen = slice(series.warmup.steps, series.in_turn)
    numbers = np.array([row.step for row in series.rows[0][chosen]], dtype=np.int64)
    return StepsInTurn(f"{run.folder.parent}/{run.spec.turns.ring}", numbers, series.slowest_seconds[chosen])


def pair_of(a: StepsInTurn, b: StepsInTurn) -> Pair | None:
    """The pair of two runs; None if they did not take turns with each other, or only for a few steps.

    Each step is compared with the partner's step of the same number, made right before or after it: medians of whole
    runs vary twice as much if the machine has two speeds and each run spends about half of its steps at either.
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
    """The pairs of runs of a with their partners in b; empty if fewer than half have one."""
    partners = {one.ring: one for one in b if one is not None}
    found = [pair_of(one, partners[one.ring]) for one in a if one is not None and one.ring in partners]
    pairs = tuple(pair for pair in found if pair is not None)
    return pairs if 2 * len(pairs) >= max(len(a), len(b)) else ()
