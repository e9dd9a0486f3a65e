"""A model of a data-parallel step: overhead + computation per sample + communication, against what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.line_fit import Line, fit_line, spread_of
from scalewise.analysis.link_fit import LinkFit
from scalewise.analysis.propagate import exact, propagate


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


@dataclass(frozen=True)
class StepParts:
    """One row of the model; the residual is what the model leaves unexplained, in seconds and as a share."""

    ranks: int
    samples_per_rank: float
    measured_seconds: Estimate
    overhead_seconds: float
    compute_seconds: float
    communication_seconds: float  # alpha-beta, nothing hidden
    communication_measured: Estimate | None  # step minus step without communication

    @property
    def model_seconds(self) -> float:
        """The time by the model: the sum of its parts."""
        return self.overhead_seconds + self.compute_seconds + self.communication_seconds

    @property
    def residual_seconds(self) -> float:
        """The measured time minus the model's."""
        return self.measured_seconds.value - self.model_seconds

    @property
    def relative_residual(self) -> float:
        """The residual as a share of the measured time."""
        return self.residual_seconds / self.measured_seconds.value


def fit_compute(points: Sequence[ComputePoint]) -> ComputeLine | None:
    """The fitted line; None with fewer than two different batches, or if a larger batch was not slower."""
    times = [one.step_seconds for one in points]
    line: Line | None = fit_line(
        [one.samples_per_rank for one in points], [one.value for one in times], spread_of(times)
    )
    if line is None or line.slope.value <= 0:
        return None
    return ComputeLine(line.intercept, line.slope, tuple(points), line.relative_residuals)


def step_parts(
    measured: Estimate,
    ranks: int,
    samples_per_rank: float,
    line: ComputeLine,
    link: LinkFit | None,
    volume: tuple[float, float],  # all-reduces per step and their bytes
    communication: Estimate | None,
) -> StepParts | None:
    """The parts of a measured step; None if the ranks communicate over a link that was not fitted."""
    if ranks > 1 and link is None:
        return None
    predicted = link.predicted(*volume).value if link is not None and ranks > 1 else 0.0
    # A fitted overhead a little below zero is noise of the line: it must not become a negative part of a step.
    overhead = max(0.0, line.overhead_seconds.value)
    compute = line.at(samples_per_rank) - overhead
    return StepParts(ranks, samples_per_rank, measured, overhead, compute, predicted, communication)


def batch_at_balance(line: ComputeLine, communication: Estimate) -> Estimate:
    """Samples per rank at which computing takes as long as communication; not positive if it always takes longer."""
    return propagate(
        lambda overhead, sample, price: (price - overhead) / sample,
        line.overhead_seconds,
        line.sample_seconds,
        communication,
        method="(communication - overhead) / time per sample",
    )


def rate_at_balance(
    line: ComputeLine, samples_per_rank: float, link: LinkFit, volume: tuple[float, float]
) -> Estimate | None:
    """Bytes per second at which communication takes as long as computing; None if its latency alone takes longer."""
    count, size = volume
    if size <= 0 or line.at(samples_per_rank) <= count * link.alpha_seconds.value:
        return None
    return propagate(
        lambda overhead, sample, alpha, b: size / (overhead + b * sample - count * alpha),
        line.overhead_seconds,
        line.sample_seconds,
        link.alpha_seconds,
        exact(samples_per_rank),
        method="bytes / (computing - latency)",
    )
