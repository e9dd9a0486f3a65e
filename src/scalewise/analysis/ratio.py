"""Estimates how many times as fast one arm is as another, with an interval.

Arms that took turns are compared step by step, interleaved ones repeat by repeat, others by the medians of their runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scalewise.analysis.estimate import (
    CONFIDENCE,
    LEAST_DEGREES,
    Estimate,
    Floats,
    RunMedian,
    assumed_log_variance,
    common_level,
    propagate,
    run_median,
    spread,
    t_quantile,
)
from scalewise.analysis.series import Series
from scalewise.records.load import Run
from scalewise.units import counted

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


Equivalence = Literal["equal within margin", "different", "cannot tell"]


@dataclass(frozen=True)
class Side:
    """One arm: its runs' medians, which repeat each is, and when each started."""

    medians: tuple[RunMedian, ...]
    repeats: tuple[int, ...]
    started: tuple[float, ...]  # unix seconds; empty: not known
    folder: str  # runs of one folder were made by one campaign
    run_cv: float  # spread between runs, assumed if it cannot be seen
    in_turn: tuple[StepsInTurn | None, ...] = ()  # of each run that took turns with others


@dataclass(frozen=True)
class Difference:
    """The difference b minus a on some scale: the middle, its standard error, and how well that error is known."""

    middle: float
    error: float
    degrees: int
    paired: bool
    assumed_run_cv: float | None  # None: the spread between runs was measured
    apart: bool  # the arms were measured one after the other, and a drift between them is allowed for
    turns: int = 0  # pairs of runs that took turns step by step; 0: they did not

    def reach(self, level: float = CONFIDENCE) -> float:
        """Half the interval of this level."""
        return t_quantile(level, self.degrees) * self.error

    def method_text(self) -> str:
        """Says how the difference was computed, for a table's notes."""
        parts = ["paired by repeat" if self.paired else "not paired"]
        if self.turns:
            parts = [f"step by step in turns, {counted(self.turns, 'pair')}"]
        if self.assumed_run_cv is not None:
            parts.append(
                f"spread between {'pairs' if self.turns else 'runs'} partly assumed ({self.assumed_run_cv * 100:.1f} %)"
            )
        if self.apart:
            parts.append("not interleaved, a drift between them of the same size assumed")
        return ", ".join(parts)


def log_difference(a: Side, b: Side) -> Difference:
    """The difference of the arms as log(b / a) of the step times."""
    return _difference(a, b, np.log, lambda pair: pair.log_ratio, scale=1.0)


def seconds_difference(a: Side, b: Side) -> Difference:
    """The difference of the arms as b - a of the step times in seconds."""
    # Relative spreads become seconds by the larger of the two step times, so that the interval is rather too wide.
    longest = max(one.seconds for one in (*a.medians, *b.medians))
    return _difference(a, b, np.asarray, lambda pair: pair.seconds, scale=longest)


def ratio(a: Side, b: Side, level: float = CONFIDENCE) -> Estimate:
    """The ratio a / b of the step times: how many times as fast b is."""
    return _estimate(log_difference(a, b), a, b, level).times(-1).through(exp, positive=True)


def seconds_between(a: Side, b: Side, level: float = CONFIDENCE) -> Estimate:
    """The difference b - a of the step times in seconds, as an estimate."""
    return _estimate(seconds_difference(a, b), a, b, level)


def ratio_of(a: Estimate, b: Estimate, method: str = "") -> Estimate:
    """The ratio a / b of two estimates measured independently: on the logarithm their uncertainties add in squares.

    This is how two arms are compared whose runs are not paired. Two intervals may overlap although this one excludes 1.
    If an interval reaches zero there is no logarithm, and the ends are moved one by one instead.
    """
    level = common_level(a, b)
    if min(a.low, b.low) <= 0:
        return propagate(lambda above, below: above / below, a, b, method=method)
    value = a.value / b.value
    down = hypot(log(a.value / a.low), log(b.high / b.value))
    up = hypot(log(a.high / a.value), log(b.value / b.low))
    said = method or "ratio of two independent estimates"
    steps, runs = a.steps + b.steps, a.runs + b.runs
    return Estimate(value, value * exp(-down), value * exp(up), steps, runs, said, level, positive=True)


def equivalent(ratio: Estimate, margin: float) -> Equivalence:
    """The answer that the interval of a ratio gives, with a margin of 0.10 for "equal within 10 %".

    Equal: the whole interval lies between 1 / (1 + margin) and 1 + margin, whether it holds 1 or not. Different: it
    is not inside the margin, and does not hold 1. Otherwise it cannot be told.
    """
    if margin <= 0:
        raise ValueError(f"a margin of equivalence is above zero, not {margin}")
    if ratio.low >= 1 / (1 + margin) and ratio.high <= 1 + margin:
        return "equal within margin"
    return "cannot tell" if ratio.low <= 1 <= ratio.high else "different"


def _estimate(difference: Difference, a: Side, b: Side, level: float) -> Estimate:
    medians, reach = (*a.medians, *b.medians), difference.reach(level)
    middle, steps = difference.middle, sum(one.steps for one in medians)
    return Estimate(middle, middle - reach, middle + reach, steps, len(medians), difference.method_text(), level)


def _difference(
    a: Side,
    b: Side,
    measure: Callable[[Sequence[float]], Floats],
    of_pair: Callable[[Pair], float],
    scale: float,
) -> Difference:
    """The difference of step times or of their logarithms; `scale` converts a relative spread into that measure."""
    pairs = pairs_of(a.in_turn, b.in_turn)
    if pairs:
        deltas = np.array([of_pair(pair) for pair in pairs])
        assumed = PAIR_SPREAD**2 + float(np.mean([pair.log_error**2 for pair in pairs]))
        return replace(_paired(deltas, assumed * scale**2, PAIR_SPREAD), turns=len(pairs))
    values_a, values_b = (measure([one.seconds for one in side.medians]) for side in (a, b))
    run_cv = max(a.run_cv, b.run_cv)
    assumed = assumed_log_variance((*a.medians, *b.medians), run_cv) * scale**2
    if _interleaved(a, b):
        return _paired(_by_repeat(b, values_b) - _by_repeat(a, values_a), 2 * assumed, run_cv)
    squares = sum(float(np.sum((values - values.mean()) ** 2)) for values in (values_a, values_b))
    known = len(values_a) + len(values_b) - 2
    variance, degrees = spread(squares, known, assumed)
    variance *= 1 / len(values_a) + 1 / len(values_b)
    apart = not _overlapping(a, b)
    if apart:
        variance += (run_cv * scale) ** 2
    middle = float(values_b.mean() - values_a.mean())
    return Difference(middle, sqrt(variance), degrees, False, run_cv if known < LEAST_DEGREES else None, apart)


def _paired(deltas: Floats, assumed_variance: float, assumed_cv: float) -> Difference:
    """The mean of the pairs' differences; their spread is measured, or filled up from the one assumed for a pair."""
    middle, count = float(deltas.mean()), len(deltas)
    known = count - 1
    variance, degrees = spread(float(np.sum((deltas - middle) ** 2)), known, assumed_variance)
    assumed = assumed_cv if known < LEAST_DEGREES else None
    return Difference(middle, sqrt(variance / count), degrees, True, assumed, False)


def _by_repeat(side: Side, values: Floats) -> Floats:
    return values[np.argsort(side.repeats, kind="stable")]


def _interleaved(a: Side, b: Side) -> bool:
    """Tells whether the n-th runs of both belong together: same campaign, same repeats, overlapping in time."""
    same = a.folder == b.folder and sorted(a.repeats) == sorted(b.repeats)
    if not same or len(set(a.repeats)) < len(a.repeats):
        return False
    return len(a.repeats) == 1 or not (a.started and b.started) or _overlapping(a, b)


def _overlapping(a: Side, b: Side) -> bool:
    """Tells whether the two were measured in one period rather than one after the other."""
    if not (a.started and b.started):
        return False
    return min(a.started) <= max(b.started) and min(b.started) <= max(a.started)
