"""Numbers with intervals that carry their confidence level: medians of real steps, and formulas of such numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, floor, inf, isfinite, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from scalewise.units import three_digits

Floats = NDArray[np.float64]

CONFIDENCE = 0.95  # the level of every interval for which no other is asked
LEAST_DEGREES = 4  # t is 2.8 here; with one degree it would be 12.7 and no interval of few runs would say anything
QUIET_RUN_CV = 0.028  # spread of run medians between fresh processes on a quiet machine, measured
LOADED_RUN_CV = 0.088  # the same with other load on the machine, measured


@dataclass(frozen=True)
class Estimate:
    """A number with an interval around it and the confidence level of that interval."""

    value: float
    low: float
    high: float
    steps: int  # on which it is based
    runs: int
    method: str
    level: float  # of the interval: 0.95
    positive: bool = False  # zero and less are impossible, so the interval is restated on the logarithm

    @property
    def half_width(self) -> float:
        """Half the interval, as a share of the value."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else inf

    @property
    def exact(self) -> bool:
        """Tells whether the interval has no width: such a number holds at every level."""
        return self.low == self.value == self.high

    def at(self, level: float) -> "Estimate":
        """The same number with its interval restated at another level: both ends move as normal quantiles do.

        Ends that come from Student's t become a little too narrow when the level rises, and a little too wide when it
        falls. If the interval decides something, compute it at the level that decides.
        """
        if level == self.level:
            return self
        by = normal_quantile(level) / normal_quantile(self.level)
        if self.positive and self.low > 0:
            low, high = (self.value * (end / self.value) ** by for end in (self.low, self.high))
        else:
            low, high = (self.value + by * (end - self.value) for end in (self.low, self.high))
        return replace(self, low=low, high=high, level=level)

    def times(self, factor: float) -> "Estimate":
        """The number multiplied by a factor, as for another unit; a negative factor exchanges the ends."""
        return self.through(lambda value: value * factor, positive=self.positive and factor > 0)

    def through(self, formula: Callable[[float], float], *, positive: bool = False) -> "Estimate":
        """The result of a monotonic formula, applied to the number and to both ends."""
        low, high = sorted((formula(self.low), formula(self.high)))
        return replace(self, value=formula(self.value), low=low, high=high, positive=positive)


def common_level(*found: Estimate) -> float:
    """The level that all of them have; intervals of different levels must be restated before they are combined."""
    levels = sorted({one.level for one in found if not one.exact})
    if len(levels) > 1:
        raise ValueError(f"intervals of {' and '.join(map(level_text, levels))} do not combine: restate them with at()")
    return levels[0] if levels else (found[0].level if found else CONFIDENCE)


def level_text(level: float) -> str:
    """A confidence level as text: `95 %`."""
    return f"{100 * level:.4g} %"


@dataclass(frozen=True)
class RunMedian:
    """One run's median step, and how well its own steps determine it."""

    seconds: float
    low: float
    high: float
    steps: int
    level: float  # of the interval

    @property
    def log_error(self) -> float:
        """The standard error of the logarithm of the median, from within the run."""
        return log(self.high / self.low) / (2 * normal_quantile(self.level)) if self.low > 0 else inf

    @property
    def estimate(self) -> Estimate:
        """The same as an `Estimate`."""
        return Estimate(self.seconds, self.low, self.high, self.steps, 1, "steps of one run", self.level, positive=True)


def normal_quantile(confidence: float) -> float:
    """The number of standard deviations around the middle of a normal distribution that hold this share."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def t_quantile(confidence: float, degrees: int) -> float:
    """The two-sided quantile of Student's t by Cornish and Fisher's expansion: within 0.3 % from four degrees on."""
    if degrees < LEAST_DEGREES:
        raise ValueError(f"the expansion needs {LEAST_DEGREES} degrees of freedom, not {degrees}")
    z, d = normal_quantile(confidence), float(degrees)
    return (
        z
        + (z**3 + z) / (4 * d)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * d**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * d**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * d**4)
    )


def run_median(values: Floats, level: float = CONFIDENCE) -> RunMedian:
    """The median of one run's steps with its interval, from the order statistics."""
    count = len(values)
    if not count:
        raise ValueError("a median needs at least one step")
    ordered = np.sort(values)
    reach = normal_quantile(level) * sqrt(count * _correlation_time(values)) / 2
    low = max(floor(count / 2 - reach), 0)
    high = min(count - 1 - low, count - 1)
    return RunMedian(float(np.median(values)), float(ordered[low]), float(ordered[high]), count, level)


def _correlation_time(values: Floats) -> float:
    """The number of steps that are worth one independent step: Geyer's initial positive sequence on the signs."""
    count = len(values)
    signs = np.sign(values - np.median(values))
    power = float(signs @ signs)
    if power == 0.0 or count < 4:
        return 1.0
    spectrum = np.fft.rfft(signs, 2 * count)
    correlation = np.fft.irfft(spectrum * np.conj(spectrum))[: count // 3] / power
    pairs = correlation[1 : 1 + (len(correlation) - 1) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    time = max(1.0, 1.0 + 2.0 * float(pairs[: ends[0] if len(ends) else len(pairs)].sum()))
    # Subtracting the median of so few steps hides part of the correlation; this restores it to first order.
    return time * count / max(count - 2 * time, count / 4)


def spread(squares: float, degrees: int, assumed_variance: float) -> tuple[float, int]:
    """Returns the variance and degrees of freedom of a sum of squares, filled up by the assumed one if they are few."""
    fill = max(0, LEAST_DEGREES - degrees)
    return (squares + fill * assumed_variance) / (degrees + fill), degrees + fill


def assumed_log_variance(medians: Sequence[RunMedian], run_cv: float) -> float:
    """The variance of a run's log median if runs differ by the assumed spread, in addition to their own error."""
    within = [min(one.log_error, 1.0) for one in medians]
    return run_cv**2 + float(np.mean(np.square(within)))


def estimate(medians: Sequence[RunMedian], run_cv: float = QUIET_RUN_CV, level: float = CONFIDENCE) -> Estimate:
    """The arm's step time: one run's median, or the geometric mean of the medians of several."""
    if len(medians) == 1:
        return medians[0].estimate.at(level)
    logs = np.log([one.seconds for one in medians])
    squares = float(np.sum((logs - logs.mean()) ** 2))
    variance, degrees = spread(squares, len(logs) - 1, assumed_log_variance(medians, run_cv))
    reach = t_quantile(level, degrees) * sqrt(variance / len(logs))
    centre, steps, count = float(logs.mean()), sum(one.steps for one in medians), len(medians)
    low, high = exp(centre - reach), exp(centre + reach)
    return Estimate(exp(centre), low, high, steps, count, _method(count, run_cv), level, positive=True)


def _method(runs: int, run_cv: float) -> str:
    if runs > LEAST_DEGREES:
        return f"medians of {runs} runs"
    return f"medians of {runs} runs, spread between runs partly assumed ({run_cv * 100:.1f} %)"


def percent_phrase(found: Estimate) -> str:
    """A share and its interval, in percent: `85.0 % [80.0, 90.0]`; an exact one has no interval."""
    text = f"{three_digits(100 * found.value)} %"
    if found.low == found.high:
        return text
    return f"{text} [{three_digits(100 * found.low)}, {three_digits(100 * found.high)}]"


def exact(value: float, level: float = CONFIDENCE) -> Estimate:
    """An estimate without uncertainty, such as a batch that was asked for."""
    return Estimate(value, value, value, 0, 0, "exact", level)


def propagate(formula: Callable[..., float], *inputs: Estimate, method: str = "") -> Estimate:
    """The formula at the middles; each input is moved to both ends of its interval, and the shifts add in squares.

    If the formula has no value after a shift (a division by zero, say), the interval is infinite on both sides. The
    intervals of all inputs have one level, and the result has it too.
    """
    level = common_level(*inputs)
    middles = [one.value for one in inputs]
    centre = formula(*middles)
    up = down = 0.0
    for index, one in enumerate(inputs):
        for end in (one.low, one.high):
            shift = _shift(formula, [*middles[:index], end, *middles[index + 1 :]], centre)
            up, down = (up + max(shift[0], 0.0) ** 2, down + max(shift[1], 0.0) ** 2)
    steps, runs = sum(one.steps for one in inputs), sum(one.runs for one in inputs)
    said = method or "from the intervals of what it is computed from"
    return Estimate(centre, centre - sqrt(down), centre + sqrt(up), steps, runs, said, level)


def _shift(formula: Callable[..., float], values: list[float], centre: float) -> tuple[float, float]:
    """The change of the formula upwards and downwards for these values."""
    try:
        moved = formula(*values)
    except (ZeroDivisionError, ValueError, OverflowError):
        return float("inf"), float("inf")
    if not isfinite(moved):
        return float("inf"), float("inf")
    return moved - centre, centre - moved
