"""Predicted against measured: what the difference tells of the model, and the measured side of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from statistics import fmean, stdev

from scalewise.analysis.estimate import normal_quantile
from scalewise.analysis.series import Series, series
from scalewise.predict.answer import Measured
from scalewise.predict.prediction import Range
from scalewise.results.run import Run

# Before anything was checked here: the error of such predictions elsewhere, a standard deviation of logarithms, over 28
# points of gloo among 2 ranks. It serves where other engines carry messages, too: nothing was measured there.
UNCHECKED = 0.06
WORTH_CHECKS = 2  # that earlier knowledge counts as many as: one lucky check makes nobody sure


@dataclass(frozen=True)
class WrittenPrediction:
    """What was predicted before anything was measured; on disk before the measurement begins."""

    written_unix_seconds: float
    script: str
    args: tuple[str, ...]
    link: str
    predictions: tuple[tuple[int, float, float, float], ...]  # ranks, seconds of a step, its interval


def model_spread(ratios: Sequence[float], before: float = UNCHECKED) -> float:
    """Standard deviation of the logarithm of predicted over measured, from what was checked and from `before`."""
    squares = WORTH_CHECKS * before**2 + sum(log(ratio) ** 2 for ratio in ratios)
    return float((squares / (WORTH_CHECKS + len(ratios))) ** 0.5)


def measured(run: Run, loop: bool = False) -> Measured | None:
    """The settled steps of a run with all its ranks, or the whole loop; None where there are none."""
    found = series(run) if run.measured else None
    if found is None or not len(found.slowest_seconds[found.settled]):
        return None
    step = _mean_loop(found) if loop else None
    if step is None:
        median = found.median()
        step = Range(median.seconds, median.low, median.high)
    rows = [row for rank in run.ranks for row in rank.memory]
    on_gpu = [row.cuda_peak_allocated_bytes for row in rows if row.cuda_peak_allocated_bytes]
    return Measured(
        ranks=run.spec.ranks,
        step=step,
        samples=found.global_samples(),
        peak_bytes=max(on_gpu or [row.peak_rss_bytes for row in rows], default=None),
    )


def _mean_loop(found: Series) -> Range | None:
    """From the end of one step to the end of the next, the mean: steps that send more count as they come."""
    known = found.settled_loops().tolist()
    if not known:
        return None
    error = normal_quantile(0.95) * stdev(known) / sqrt(len(known)) if len(known) > 1 else 0.0
    return Range(fmean(known), max(0.0, fmean(known) - error), fmean(known) + error)
