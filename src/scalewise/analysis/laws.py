"""Laws of speedup: Amdahl's serial fraction fitted over several rank counts, and the effect of a delay."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from scalewise.analysis.estimate import LEAST_DEGREES, Estimate, common_level, normal_quantile, t_quantile
from scalewise.analysis.propagate import propagate


@dataclass(frozen=True)
class RankSpeedup:
    """A measured speedup over one rank."""

    ranks: int
    speedup: Estimate


@dataclass(frozen=True)
class AmdahlFit:
    """Amdahl's law with the serial fraction that fits the points best.

    The fraction is not limited to 0 to 1: above 1 more ranks are slower, below 0 they are faster than ideal, and in
    both cases the law does not describe what was measured.
    """

    serial_fraction: Estimate
    points: tuple[RankSpeedup, ...]
    relative_residuals: tuple[float, ...]  # measured over law, minus 1

    @property
    def lawful(self) -> bool:
        """Tells whether the fraction is possible: its interval reaches into 0 to 1."""
        return self.serial_fraction.high >= 0 and self.serial_fraction.low <= 1

    def speedup(self, ranks: float) -> float:
        """The speedup by the law."""
        return amdahl_speedup(self.serial_fraction.value, ranks)


def amdahl_speedup(serial_fraction: float, ranks: float) -> float:
    """Amdahl's speedup: 1 / (s + (1 - s) / N)."""
    return 1 / (serial_fraction + (1 - serial_fraction) / ranks)


def fit_amdahl(points: Sequence[RankSpeedup]) -> AmdahlFit | None:
    """The fit by least squares of 1/S - 1/N = s (1 - 1/N), weighted by the intervals; None without two ranks."""
    used = tuple(point for point in points if point.ranks > 1 and point.speedup.value > 0)
    if not used:
        return None
    x = np.array([1 - 1 / one.ranks for one in used])
    y = np.array([1 / one.speedup.value - 1 / one.ranks for one in used])
    errors = np.array([_inverse_error(one.speedup) for one in used])
    weights = 1 / errors**2
    power = float(np.sum(weights * x**2))
    fraction = float(np.sum(weights * x * y)) / power
    squares = float(np.sum(weights * (y - fraction * x) ** 2))
    degrees = len(used) - 1
    # The points' own intervals are the minimum; if the points scatter more than those allow, the scatter counts.
    inflation = sqrt(max(1.0, squares / degrees)) if degrees else 1.0
    level = common_level(*(one.speedup for one in used))
    quantile = t_quantile(level, degrees) if degrees >= LEAST_DEGREES else normal_quantile(level)
    reach = quantile * inflation / sqrt(power)
    steps, runs = sum(one.speedup.steps for one in used), sum(one.speedup.runs for one in used)
    found = Estimate(
        fraction, fraction - reach, fraction + reach, steps, runs, f"Amdahl over {len(used)} points", level
    )
    law = tuple(one.speedup.value * (fraction + (1 - fraction) / one.ranks) - 1 for one in used)
    return AmdahlFit(found, used, law)


def _inverse_error(speedup: Estimate) -> float:
    """The standard error of 1/S from its interval; a minimum keeps an exact point from outweighing all others."""
    low = max(speedup.low, 1e-9)
    return max((1 / low - 1 / speedup.high) / (2 * normal_quantile(speedup.level)), 1e-6 / speedup.value)


def delayed_speedup(one_rank: Estimate, many_ranks: Estimate, delay_seconds: Estimate) -> Estimate:
    """The speedup by Amdahl's law if a delay is added to the serial part of both: (T1 + d) / (TN + d).

    With the serial fraction s that Karp and Flatt derive from T1 and TN this is the same as 1 / (s' + (1 - s') / N)
    with s' = (s T1 + d) / (T1 + d).
    """
    return propagate(
        lambda t1, tn, d: (t1 + d) / (tn + d),
        one_rank,
        many_ranks,
        delay_seconds,
        method="Amdahl with the delay serial",
    )


def delayed_fraction(serial_fraction: Estimate, one_rank: Estimate, delay_seconds: Estimate) -> Estimate:
    """The serial fraction of the delayed step: (s T1 + d) / (T1 + d)."""
    return propagate(lambda s, t1, d: (s * t1 + d) / (t1 + d), serial_fraction, one_rank, delay_seconds)
