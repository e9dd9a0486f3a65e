"""Laws fitted to measured times: a line, a step over its batch and where that saturates, and an all-reduce."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from scalewise.analysis.estimate import (
    CONFIDENCE,
    QUIET_RUN_CV,
    Estimate,
    Floats,
    exact,
    normal_quantile,
    propagate,
    spread,
    t_quantile,
)
from scalewise.records.collectives import collective_kind
from scalewise.records.load import Run
from scalewise.records.rows import StepRow
from scalewise.units import NANO, bytes_text

ROUNDS = 50  # of reweighting; it converges in fewer than ten
HUBER = 1.345  # standard deviations from which a residual counts linearly: 95 % efficient on normal errors
NORMAL_MAD = 1.4826  # standard deviation over median absolute deviation of a normal distribution


@dataclass(frozen=True)
class Line:
    """A line y = intercept + slope x, with the relative residual (measured over line, minus 1) of every point."""

    intercept: Estimate
    slope: Estimate
    relative_residuals: tuple[float, ...]

    def at(self, x: float) -> float:
        """The value of the line at x."""
        return self.intercept.value + self.slope.value * x

    @property
    def typical_residual(self) -> float:
        """The median absolute relative residual."""
        return float(np.median(np.abs(self.relative_residuals)))


def fit_line(x: Sequence[float], y: Sequence[float], assumed_cv: float = QUIET_RUN_CV) -> Line | None:
    """The fitted line; None if fewer than two x differ, or if some y is not positive."""
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(np.unique(xs)) < 2 or not np.all(np.isfinite(ys)) or np.any(ys <= 0):
        return None
    scale = float(np.abs(xs).max())  # bytes go up to 10^8: without scaling, their squares would cost digits
    design = np.column_stack((1 / ys, xs / scale / ys))
    target = np.ones_like(ys)
    weights = _weights(design, target)
    root = np.sqrt(weights)[:, None]
    solution = np.linalg.lstsq(design * root, target * root[:, 0], rcond=None)[0]
    residuals = design @ solution - target
    reach = _reach(design, weights, residuals, assumed_cv)
    count = len(ys)
    method = f"line through {count} points, relative residuals"

    def found(index: int, by: float) -> Estimate:
        value, half = float(solution[index]) / by, float(reach[index]) / by
        return Estimate(value, value - half, value + half, count, 0, method, CONFIDENCE)

    line = ys / (solution[0] + solution[1] * xs / scale) - 1
    return Line(found(0, 1.0), found(1, scale), tuple(float(one) for one in line))


def spread_of(times: Sequence[Estimate]) -> float:
    """The relative standard error to assume for a line through these: that of the widest, or a quiet machine's."""
    return max([QUIET_RUN_CV, *(one.half_width / normal_quantile(one.level) for one in times)])


def _weights(design: Floats, target: Floats) -> Floats:
    weights = np.ones_like(target)
    for _ in range(ROUNDS):
        root = np.sqrt(weights)
        solution = np.linalg.lstsq(design * root[:, None], target * root, rcond=None)[0]
        sizes = np.abs(design @ solution - target)
        limit = HUBER * max(NORMAL_MAD * float(np.median(sizes)), 1e-12)
        fresh: Floats = np.minimum(1.0, limit / np.maximum(sizes, 1e-300))
        if np.allclose(fresh, weights, atol=1e-6):
            break
        weights = fresh
    return weights


def _reach(design: Floats, weights: Floats, residuals: Floats, assumed_cv: float) -> Floats:
    """Half the 95 % interval of both coefficients."""
    squares = float(np.sum(weights * residuals**2))
    variance, degrees = spread(squares, len(residuals) - 2, assumed_cv**2)
    covariance = variance * np.linalg.pinv(design.T @ (weights[:, None] * design))
    reach: Floats = t_quantile(CONFIDENCE, degrees) * np.sqrt(np.diag(covariance))
    return reach


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


ALL_REDUCE = "all_reduce"


@dataclass(frozen=True)
class LinkPoint:
    """One collective among this many ranks."""

    bytes: int  # of the whole message, as `predict.collective_times` counts it
    seconds: float
    ranks: int
    kind: str = ALL_REDUCE


def link_points(run: Run, kinds: Collection[str] = (ALL_REDUCE,)) -> tuple[LinkPoint, ...]:
    """One point per step that held exactly one of these collectives; the first of each size is warm-up and left out.

    The time is that of the rank with the shortest: it came last and waited for no other rank, while none could finish
    before it came. The extra time of the others is waiting, not the link.
    """
    if not run.measured or run.spec.world_size < 2:
        return ()
    by_rank = [{row.step: row for row in rank.steps} for rank in run.ranks]
    overhead_ns = _overhead_ns(run)
    seen: Counter[tuple[str, int]] = Counter()
    points = []
    for step in sorted(set.intersection(*(set(rows) for rows in by_rank))):
        rows = [of_rank[step] for of_rank in by_rank]
        sent = _sent(rows[0])
        if sent is None or sent[0] not in kinds or any(_sent(row) != sent for row in rows):
            continue
        seen[sent] += 1
        shortest_ns = min(_spent_ns(row, run.spec.device, overhead_ns) for row in rows)
        if seen[sent] > 1 and shortest_ns > 0:
            points.append(LinkPoint(_whole_bytes(run, *sent), shortest_ns * NANO, run.spec.world_size, sent[0]))
    return tuple(points)


def _sent(row: StepRow) -> tuple[str, int] | None:
    """Kind and bytes of the only collective of the step; None if there is not exactly one."""
    if len(row.collectives) != 1:
        return None
    ((kind, (count, size)),) = row.collectives.items()
    return (kind, size) if count == 1 else None


def _whole_bytes(run: Run, kind: str, size: int) -> int:
    """The bytes of the whole message; of a reduce-scatter the watcher counts only what a rank keeps."""
    return size * run.spec.world_size if collective_kind(kind).counts_piece else size


def _spent_ns(row: StepRow, device: str, overhead_ns: float) -> float:
    """The time of a collective; a GPU's call returns early, so there it is the step's time beyond its own phases."""
    if device == "cpu":
        return row.collective_ns
    return row.rest_ns if row.rest_ns is not None else row.step_ns - overhead_ns


def _overhead_ns(run: Run) -> float:
    """The median time of forward, backward and optimizer in a step, if the device resolved them."""
    rows = [row for rank in run.ranks for row in rank.steps if row.rest_ns is not None]
    return median([row.step_ns - row.rest_ns for row in rows if row.rest_ns is not None]) if rows else 0.0


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
