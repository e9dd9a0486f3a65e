"""The alpha-beta model of an all-reduce, fitted to measured points: seconds = alpha + bytes / rate."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.line_fit import Line, fit_line
from scalewise.analysis.propagate import exact, propagate
from scalewise.units import bytes_text

LEAST_SIZES = 4
LEAST_SPAN = 100.0  # largest over smallest message: with less, latency and rate cannot be told apart
MOST_RESIDUAL = 0.35  # median relative residual above which the line does not describe the points


@dataclass(frozen=True)
class LinkFit:
    """Latency and rate among this many ranks; the rate is bytes of the reduced tensor per second."""

    ranks: int
    alpha_seconds: Estimate
    bytes_per_second: Estimate
    sizes: tuple[float, ...]
    seconds: tuple[float, ...]  # the shortest of each size
    relative_residuals: tuple[float, ...]

    def predicted(self, count: float, size_bytes: float) -> Estimate:
        """Seconds of `count` all-reduces with `size_bytes` in all, one after the other."""
        return propagate(
            lambda alpha, rate, n, size: n * alpha + size / rate,
            self.alpha_seconds,
            self.bytes_per_second,
            exact(count),
            exact(size_bytes),
            method="alpha-beta model of the measured link",
        )


@dataclass(frozen=True)
class NoLinkFit:
    """The reason why no link was fitted."""

    ranks: int
    reason: str


def fit_link(points: Iterable[tuple[float, float]], ranks: int) -> LinkFit | NoLinkFit:
    """The fit from (bytes, seconds) of single all-reduces; of the repeats of one size the shortest counts.

    On CPU ranks the thread that reduces shares the rank's core, and if the scheduler lets it wait a message takes
    3 to 5 ms more, whatever its size: the shortest shows the link, the rest is delay and belongs to the residual.
    """
    by_size: dict[float, list[float]] = {}
    for size, seconds in points:
        if size > 0 and seconds > 0:
            by_size.setdefault(float(size), []).append(seconds)
    sizes = sorted(by_size)
    few = too_few(sizes)
    if few:
        return NoLinkFit(ranks, few)
    shortest = [min(by_size[size]) for size in sizes]
    line = fit_line(sizes, shortest)
    reason = _refusal(line)
    if line is None or reason:
        return NoLinkFit(ranks, reason)
    rate = propagate(lambda slope: 1 / slope, line.slope, method=line.slope.method)
    return LinkFit(ranks, line.intercept, rate, tuple(sizes), tuple(shortest), line.relative_residuals)


def too_few(sizes: Sequence[float]) -> str:
    """The reason why messages of these sizes, smallest first, cannot tell latency and rate apart; empty if they can."""
    if len(sizes) >= LEAST_SIZES and sizes[-1] >= LEAST_SPAN * sizes[0]:
        return ""
    span = f" from {bytes_text(sizes[0])} to {bytes_text(sizes[-1])}" if sizes else ""
    return f"{len(sizes)} message sizes{span} are too few to tell latency and rate apart"


def _refusal(line: Line | None) -> str:
    if line is None:
        return "no line goes through the points"
    if line.intercept.value <= 0 or line.slope.value <= 0:
        return "the fitted latency or rate is not positive"
    if line.typical_residual > MOST_RESIDUAL:
        found = f"the points miss the line by {100 * line.typical_residual:.0f} % (median)"
        return f"{found}, more than {100 * MOST_RESIDUAL:.0f} %"
    return ""
