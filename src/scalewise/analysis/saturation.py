"""Fits where throughput stops growing with the batch: a step of t0 + c b gives b / (t0 + c b), which tends to 1 / c."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.line_fit import fit_line
from scalewise.analysis.propagate import propagate

SATURATED = 0.9  # of the limit: from here on, doubling the batch gains less than 6 %


@dataclass(frozen=True)
class Saturation:
    """Throughput over batch at a fixed number of ranks."""

    limit_per_second: Estimate  # samples per second of an infinitely large batch
    fixed_seconds: Estimate  # the part of every step that does not depend on its batch
    sample_seconds: Estimate
    batch: Estimate  # at which SATURATED of the limit is reached
    relative_residuals: tuple[float, ...]  # measured step over line, minus 1

    def throughput(self, batch: float) -> float:
        """Samples per second by the fitted line."""
        return batch / (self.fixed_seconds.value + self.sample_seconds.value * batch)

    def share(self, batch: float) -> float:
        """The share of the limit that this batch reaches."""
        return self.throughput(batch) / self.limit_per_second.value


def saturation(points: Sequence[tuple[float, Estimate]]) -> Saturation | None:
    """The fit of (batch, step seconds); None below three batches or if a larger batch costs no time at all."""
    if len({batch for batch, _ in points}) < 3:
        return None
    line = fit_line([batch for batch, _ in points], [step.value for _, step in points])
    if line is None or line.slope.low <= 0:
        return None
    factor = SATURATED / (1 - SATURATED)
    batch = propagate(lambda fixed, sample: factor * fixed / sample, line.intercept, line.slope)
    limit = propagate(lambda sample: 1 / sample, line.slope)
    return Saturation(limit, line.intercept, line.slope, batch, line.relative_residuals)
