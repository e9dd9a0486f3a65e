"""Compares predictions with measurements: the error of the model, and the measured side of the comparison."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.series import Series, series
from scalewise.predict.answer import Checked, MeasuredStep
from scalewise.predict.compute_noise import compute_spread
from scalewise.predict.link import Link
from scalewise.predict.prediction import LEVEL, QUANTILE, OnLink, Spread
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.predict.seen_errors import UNCHECKED, WORTH_CHECKS, ModelError, chance_of, error_after
from scalewise.predict.timeline import APART, Sharing, simulate
from scalewise.predict.unusual_parts import unusual_spread
from scalewise.records.load import Run


@dataclass(frozen=True)
class WrittenPrediction:
    """The predictions written to disk before the measurement begins."""

    written_unix_seconds: float
    script: str
    args: tuple[str, ...]
    link: str
    predictions: tuple[tuple[int, float, float, float], ...]  # ranks, seconds of a step, its interval
    level: float = LEVEL  # of the intervals


def model_error(checks: Sequence[Checked], before: float = UNCHECKED) -> ModelError:
    """Splits prediction errors into a systematic part, which is taken out, and chance, which becomes the spread.

    Each check is weighted by how far chance alone moves it: the measured step's interval, and the spread between fresh
    processes for the rehearsal, and for the measurement too if it is a single run. Before any check the systematic part
    is zero, give or take `before`.
    """
    errors = [log(check.ratio) for check in checks]
    weights = [1 / chance_of(check) ** 2 for check in checks]
    weighted = sum(weight * error for weight, error in zip(weights, errors, strict=True))
    shift = weighted / (1 / before**2 + sum(weights)) if checks else 0.0
    squares = WORTH_CHECKS * before**2 + sum((error - shift) ** 2 for error in errors)
    return ModelError(shift, sqrt(squares / (WORTH_CHECKS + len(checks))))


def spread_over(
    link: Link,
    rehearsals: Sequence[RehearsedRank],
    checks: Sequence[Checked],
    one: RehearsedRank,
    sharing: Sharing = APART,
) -> Spread:
    """The spread of a prediction: checks shift those over the measured link, and only widen all others."""
    computing = compute_spread(rehearsals)
    if link.origin != "measured":
        return Spread(computing, link.spread, model_spread([check.ratio for check in checks]))
    unusual = unusual_spread(one.typical, link, one.ranks, sharing) if link.carrier == "gloo" else 0.0
    error = error_after(checks, one.ranks, link, held_up(one, link, sharing), unusual)
    return Spread(computing, link.spread, error.spread, error.shift)


def held_up(one: RehearsedRank, link: Link, sharing: Sharing = APART) -> float:
    """The share of the usual step in which messages hold up computing."""
    line = simulate(one.typical, OnLink(link, one.ranks), sharing)
    return (line.exposed_seconds + line.slowed_seconds) / line.step_seconds if line.step_seconds else 0.0


def model_spread(ratios: Sequence[float], before: float = UNCHECKED) -> float:
    """The spread if no error is systematic, as with other scripts or another link: all of the error is spread."""
    squares = WORTH_CHECKS * before**2 + sum(log(ratio) ** 2 for ratio in ratios)
    return float((squares / (WORTH_CHECKS + len(ratios))) ** 0.5)


def measured(run: Run, loop: bool = False) -> MeasuredStep | None:
    """The settled steps of a run with all its ranks, or with `loop` the mean of its loops; None if there are none."""
    found = series(run) if run.measured else None
    if found is None or not len(found.slowest_seconds[found.settled]):
        return None
    step = _mean_loop(found) if loop else None
    if step is None:
        step = found.median().estimate.at(LEVEL)
    rows = [row for rank in run.ranks for row in rank.memory]
    on_gpu = [row.cuda_peak_allocated_bytes for row in rows if row.cuda_peak_allocated_bytes]
    return MeasuredStep(
        ranks=run.spec.ranks,
        step=step,
        samples=found.global_samples(),
        peak_bytes=max(on_gpu or [row.peak_rss_bytes for row in rows], default=None),
    )


def _mean_loop(found: Series) -> Estimate | None:
    """The mean time from the end of one step to the end of the next: steps that send more count as often as they do."""
    known = found.settled_loops().tolist()
    if not known:
        return None
    mean = fmean(known)
    reach = QUANTILE * stdev(known) / mean / sqrt(len(known)) if len(known) > 1 else 0.0
    low, high = mean * exp(-reach), mean * exp(reach)
    return Estimate(mean, low, high, len(known), 1, "mean of one run's loops", LEVEL, positive=True)
