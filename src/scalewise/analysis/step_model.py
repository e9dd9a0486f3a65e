"""A model of a step without communication: an overhead, and computing for each sample."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.line_fit import Line, fit_line, spread_of


@dataclass(frozen=True)
class ComputePoint:
    """A step without communication: samples of one rank, and how long it took."""

    samples_per_rank: float
    step_seconds: Estimate


@dataclass(frozen=True)
class ComputeLine:
    """The line compute(b) = overhead + b x seconds per sample; a smaller batch does not reduce the overhead."""

    overhead_seconds: Estimate
    sample_seconds: Estimate
    points: tuple[ComputePoint, ...]
    relative_residuals: tuple[float, ...]

    def at(self, samples_per_rank: float) -> float:
        """Seconds of one rank's step without communication."""
        return self.overhead_seconds.value + self.sample_seconds.value * samples_per_rank


def fit_compute(points: Sequence[ComputePoint]) -> ComputeLine | None:
    """The fitted line; None with fewer than two different batches, or if a larger batch was not slower."""
    times = [one.step_seconds for one in points]
    line: Line | None = fit_line(
        [one.samples_per_rank for one in points], [one.value for one in times], spread_of(times)
    )
    if line is None or line.slope.value <= 0:
        return None
    return ComputeLine(line.intercept, line.slope, tuple(points), line.relative_residuals)
