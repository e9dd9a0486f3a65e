"""One run's figures beside its median: ranks, phases, memory, communication, losses, and how steadily it trained."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log2
from statistics import mean, median
from typing import Literal

import numpy as np

from scalewise.analysis.series import NOTHING_SEEN, PHASES, Series, StepModules, step_modules
from scalewise.analysis.work import Precision
from scalewise.records.inspection import GradientRow
from scalewise.records.load import RankRecord, Run
from scalewise.records.rows import MemoryRow
from scalewise.units import NANO

# However short the warm-up: DDP rebuilds its buckets in the second step, and may free the old ones after it.
SETUP_STEPS = 3


@dataclass(frozen=True)
class RankFigures:
    """The figures of one rank of one run."""

    rank: int
    step_seconds: float
    phase_seconds: dict[str, float | None]
    slowest_share: float  # of the steps in which it was the slowest rank
    collective_seconds: float  # blocked in collectives that the script called itself, per step
    peak_rss_bytes: int | None
    cuda_peak_allocated_bytes: int | None
    busy_cores: float | None
    between_seconds: float | None = None  # neither in a step nor waiting for data, per step


@dataclass(frozen=True)
class Memory:
    """The largest memory figures over the ranks; None if not recorded."""

    peak_rss_bytes: int | None = None
    cuda_peak_allocated_bytes: int | None = None  # after warm-up, where that was recorded
    cuda_peak_reserved_bytes: int | None = None
    parameter_bytes: int | None = None
    gradient_bytes: int | None = None
    optimizer_bytes: int | None = None
    heap_at_backward_bytes: int | None = None
    cuda_whole_peak_bytes: int | None = None  # of the whole run, as the script itself would read it


@dataclass(frozen=True)
class Collective:
    """One kind of collective, per step of one rank."""

    kind: str
    count: float
    bytes: float


@dataclass(frozen=True)
class Exposed:
    """Communication that backward could not hide, as the watcher recorded it."""

    method: str
    exposed_seconds: float  # median over the sampled steps of all ranks
    communication_seconds: float
    sampled_seconds: tuple[float, ...]  # exposed, one by one


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run, for its own page."""

    name: str
    repeat: int
    outcome: str  # its kind; `unfinished` while there is none
    sentence: str
    warmup_steps: int
    warmup_over: bool
    steps: int  # after warm-up
    step_seconds: tuple[float, ...]  # every step, the slowest rank's, warm-up included
    variation: float  # standard deviation over mean, after warm-up
    p95_over_median: float
    skew_seconds: float  # slowest minus fastest rank, median over steps
    micro_batches: float | None
    samples_per_step: float | None  # over all ranks
    precision: Precision
    losses: tuple[float | None, ...]  # every step, mean over ranks
    skipped_steps: int
    non_finite_steps: int
    scales: tuple[float | None, ...]  # of the GradScaler, every step
    ranks: tuple[RankFigures, ...]
    memory: Memory
    collectives: tuple[Collective, ...]
    exposed: tuple[Exposed, ...]
    modules: StepModules = NOTHING_SEEN


def run_figures(run: Run, series: Series, precision: Precision) -> RunFigures:
    """All figures of one measured run."""
    slowest = series.slowest_seconds
    settled = slowest[series.settled]
    own = series.step_seconds[:, series.settled]
    rows = series.rows[0]
    return RunFigures(
        name=run.spec.name,
        repeat=run.spec.repeat,
        outcome=run.outcome.kind if run.outcome else "unfinished",
        sentence=run.outcome.sentence if run.outcome else "",
        warmup_steps=series.warmup.steps,
        warmup_over=series.warmup.over,
        steps=len(settled),
        step_seconds=tuple(slowest.tolist()),
        variation=float(settled.std() / settled.mean()),
        p95_over_median=float(np.quantile(settled, 0.95) / np.median(settled)),
        skew_seconds=float(np.median(own.max(axis=0) - own.min(axis=0))),
        micro_batches=series.typical(series.micro_batches),
        samples_per_step=series.global_samples(),
        precision=precision,
        losses=_losses(series),
        skipped_steps=sum(row.skipped for row in rows),
        non_finite_steps=sum(row.non_finite for row in rows),
        scales=tuple(row.scale for row in rows) if any(row.scale is not None for row in rows) else (),
        ranks=_rank_figures(run, series),
        memory=memory_of(run, series.warmup.steps),
        collectives=_collectives(run, series),
        exposed=_exposed(run, series),
        modules=step_modules(run, series),
    )


def _losses(series: Series) -> tuple[float | None, ...]:
    means = series.loss.mean(axis=0)
    return tuple(float(value) if np.isfinite(value) else None for value in means)


def _rank_figures(run: Run, series: Series) -> tuple[RankFigures, ...]:
    own = series.step_seconds[:, series.settled]
    slowest = own.argmax(axis=0)
    records = {record.rank: record for record in run.ranks}
    found = []
    for index, rank in enumerate(series.ranks):
        record = records[rank]
        busy = [row.rank_busy[rank] for row in run.samples if rank < len(row.rank_busy)]
        blocked = [row.collective_ns for row in series.rows[index][series.settled]]
        found.append(
            RankFigures(
                rank=rank,
                step_seconds=float(np.median(own[index])),
                phase_seconds={name: _phase(series, name, index) for name in PHASES},
                slowest_share=float(np.mean(slowest == index)) if len(series.ranks) > 1 else 1.0,
                collective_seconds=median(blocked) * NANO,
                peak_rss_bytes=_most(row.peak_rss_bytes for row in record.memory),
                cuda_peak_allocated_bytes=settled_peak(record.memory, series.warmup.steps),
                busy_cores=median(busy) if busy else None,
                between_seconds=_between(series, index),
            )
        )
    return tuple(found)


def _phase(series: Series, name: str, index: int) -> float | None:
    values = series.phase_seconds[name][index, series.settled]
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None


def _between(series: Series, index: int) -> float | None:
    outside = series.loop_seconds[index, series.settled] - series.step_seconds[index, series.settled]
    known = outside[np.isfinite(outside)]
    if not len(known):
        return None
    return max(0.0, float(np.median(known)) - (_phase(series, "data", index) or 0.0))


def memory_of(run: Run, warmup_steps: int) -> Memory:
    """The memory peaks over ranks and time; for a GPU's tensors those after warm-up."""
    rows: list[MemoryRow] = [row for record in run.ranks for row in record.memory]
    return Memory(
        peak_rss_bytes=_most(row.peak_rss_bytes for row in rows),
        cuda_peak_allocated_bytes=_most(settled_peak(record.memory, warmup_steps) for record in run.ranks),
        cuda_peak_reserved_bytes=_most(row.cuda_peak_reserved_bytes for row in rows),
        parameter_bytes=_most(row.parameter_bytes for row in rows),
        gradient_bytes=_most(row.gradient_bytes for row in rows),
        optimizer_bytes=_most(row.optimizer_bytes for row in rows),
        heap_at_backward_bytes=_most(row.heap_at_backward_bytes for row in rows),
        cuda_whole_peak_bytes=_most(row.cuda_peak_allocated_bytes for row in rows),
    )


def settled_peak(rows: Sequence[MemoryRow], warmup_steps: int) -> int | None:
    """The most bytes that a rank had allocated on its GPUs in the intervals that begin after warm-up.

    In the first steps DDP may or may not hold its old and its new buckets at the same time. If no interval begins
    late enough the last one counts; old runs and runs without that hook know the peak of the whole run only.
    """
    begins = max(warmup_steps, SETUP_STEPS) - 1
    stretches = [
        (before.step >= begins, row.cuda_stretch_peak_bytes)
        for before, row in pairwise(rows)
        if row.cuda_stretch_peak_bytes is not None
    ]
    if not stretches:
        return _most(row.cuda_peak_allocated_bytes for row in rows)
    return _most(peak for settled, peak in stretches if settled) or stretches[-1][1]


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _settled_from(series: Series) -> int:
    """The first optimizer step after warm-up."""
    return series.rows[0][series.warmup.steps - 1].step + 1 if series.warmup.steps else 0


def _collectives(run: Run, series: Series) -> tuple[Collective, ...]:
    first = _settled_from(series)
    record: RankRecord = next(record for record in run.ranks if record.rank == series.ranks[0])
    rows = [row for row in record.steps if row.step >= first]
    totals: dict[str, tuple[int, int]] = {}
    for row in rows:
        for kind, (count, size) in row.collectives.items():
            before = totals.get(kind, (0, 0))
            totals[kind] = (before[0] + count, before[1] + size)
    iterations = max(1.0, len(rows) / series.optimizer_steps)
    return tuple(
        Collective(kind, count / iterations, size / iterations) for kind, (count, size) in sorted(totals.items())
    )


def _exposed(run: Run, series: Series) -> tuple[Exposed, ...]:
    first = _settled_from(series)
    by_method: dict[str, list[tuple[int, int]]] = {}
    for record in run.ranks:
        for row in record.exposed:
            if row.step >= first:
                by_method.setdefault(row.method, []).append((row.exposed_ns, row.communication_ns))
    return tuple(
        Exposed(
            method,
            median(hidden for hidden, _ in rows) * NANO,
            median(total for _, total in rows) * NANO,
            tuple(hidden * NANO for hidden, _ in rows),
        )
        for method, rows in sorted(by_method.items())
    )


Word = Literal["stable", "drifts", "unstable", "diverged", "not trained"]

# Half the distance between two neighbouring numbers at one, for each precision.
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
# Three roundings per layer (input, weight, output) for two layers, one for the loss, one carried on by a step.
TOLERATED_ROUNDINGS = 8
ALL_BUT_NONE = 0.99  # share of gradients that are zero from which on nothing is left to train with
LATE_SKIPS = 0.05  # share of the later steps: a scaler that grows its scale loses one step in 2000
SCALE_SEARCH = 1 / 3  # of the steps: in these a scaler still searches for its scale


@dataclass(frozen=True)
class LossCurve:
    """A loss curve compared with its reference, over the steps that both recorded."""

    steps: int
    largest_distance: float  # relative to the reference, at any step
    tolerance: float  # that rounding in this precision explains

    @property
    def same(self) -> bool:
        """Tells whether the curves agree to the last bit."""
        return self.largest_distance == 0.0

    @property
    def within(self) -> bool:
        """Tells whether the curves are no further apart than rounding explains."""
        return self.largest_distance <= self.tolerance


@dataclass(frozen=True)
class Gradients:
    """The gradients of an inspected run, over its steps."""

    zero_share: float  # median over the steps
    non_finite_steps: int
    norm: float  # median over the steps with a finite one
    steps: int


@dataclass(frozen=True)
class Stability:
    """The figures, the word for them, and the rule that chose the word."""

    word: Word
    condition: str
    steps: int
    skipped_steps: int
    late_skipped_steps: int  # after the first third
    non_finite_steps: int
    scales: tuple[float, ...]  # of the GradScaler, where it was read
    scale_cuts: int
    curve: LossCurve | None
    gradients: Gradients | None
    variation: float  # of the step times: standard deviation over mean
    p95_over_median: float


def tolerance_of(precision: Precision) -> float:
    """The relative error of a loss that rounding explains, against exact arithmetic; the coarsest type counts."""
    names = (*precision.dtypes, *precision.autocast)
    return TOLERATED_ROUNDINGS * max((ROUNDOFF[name] for name in names if name in ROUNDOFF), default=0.0)


def loss_curve(losses: Sequence[float | None], reference: Sequence[float | None], tolerance: float) -> LossCurve | None:
    """The two curves compared step by step; None if no step has both losses."""
    pairs = [(a, b) for a, b in zip(losses, reference, strict=False) if a is not None and b is not None]
    if not pairs:
        return None
    return LossCurve(len(pairs), max(_distance(a, b) for a, b in pairs), tolerance)


def gradients_of(rows: Sequence[GradientRow]) -> Gradients | None:
    """Statistics of the gradients that an inspected run's optimizer steps used; None if there are none."""
    filled = [row for row in rows if row.elements]
    if not filled:
        return None
    norms = [row.norm for row in filled if not row.non_finite]
    return Gradients(
        zero_share=median(row.zeros / row.elements for row in filled),
        non_finite_steps=sum(row.non_finite > 0 for row in filled),
        norm=median(norms) if norms else float("nan"),
        steps=len(filled),
    )


def stability(
    runs: Sequence[RunFigures], reference: RunFigures | None = None, gradients: Sequence[GradientRow] = ()
) -> Stability | None:
    """The stability of the repeats of one arm: counts are those of the worst run; None if there is no run."""
    if not runs:
        return None
    curves = [_curve(run, reference) for run in runs] if reference else []
    found = [curve for curve in curves if curve]
    worst = max(runs, key=lambda run: (run.non_finite_steps, run.skipped_steps))
    curve = max(found, key=lambda one: one.largest_distance, default=None)
    health = gradients_of(gradients)
    late = _late_skips(worst)
    word, condition = _word(worst, late, curve, health)
    scales = tuple(scale for scale in worst.scales if scale is not None)
    return Stability(
        word=word,
        condition=condition,
        steps=len(worst.step_seconds),
        skipped_steps=worst.skipped_steps,
        late_skipped_steps=late,
        non_finite_steps=worst.non_finite_steps,
        scales=scales,
        scale_cuts=sum(after < before for before, after in pairwise(scales)),
        curve=curve,
        gradients=health,
        variation=mean(run.variation for run in runs),
        p95_over_median=mean(run.p95_over_median for run in runs),
    )


def _curve(run: RunFigures, reference: RunFigures | None) -> LossCurve | None:
    return loss_curve(run.losses, reference.losses, tolerance_of(run.precision)) if reference else None


def _late_skips(run: RunFigures) -> int:
    """The skipped steps that the search for a scale does not explain: each early one halved the scale."""
    early = int(len(run.step_seconds) * SCALE_SEARCH)
    known = [(step, scale) for step, scale in enumerate(run.scales) if scale]
    halvings = [
        round(log2(before / after)) for (step, before), (_, after) in pairwise(known) if step < early and after < before
    ]
    return max(0, run.skipped_steps - sum(halvings))


def _distance(value: float, reference: float) -> float:
    if value == reference:
        return 0.0
    return abs(value - reference) / abs(reference) if reference else float("inf")


def _word(run: RunFigures, late: int, curve: LossCurve | None, health: Gradients | None) -> tuple[Word, str]:
    """The word and condition of the first rule that holds, from the worst to the best."""
    steps = len(run.step_seconds)
    if run.skipped_steps >= steps:
        return "not trained", f"all {steps} steps were skipped"
    if health and health.zero_share >= ALL_BUT_NONE:
        return "not trained", f"share of zero gradients {health.zero_share:.1%} >= {ALL_BUT_NONE:.0%}"
    if run.non_finite_steps > run.skipped_steps:
        return "diverged", f"{run.non_finite_steps} losses not finite, {run.skipped_steps} of those steps skipped"
    if late > LATE_SKIPS * steps:
        return "unstable", f"{late} of {steps} steps skipped after the scale should have settled (> {LATE_SKIPS:.0%})"
    if curve and not curve.within:
        distance = f"{curve.largest_distance:.1e} > {curve.tolerance:.1e}"
        return "drifts", f"distance of the loss from fp32 {distance} ({TOLERATED_ROUNDINGS} roundings)"
    return "stable", _stable_condition(curve)


def _stable_condition(curve: LossCurve | None) -> str:
    steady = "no loss that is not finite, no late skipped steps"
    if curve is None:
        return steady
    return f"{steady}, distance of the loss from fp32 {curve.largest_distance:.1e} <= {curve.tolerance:.1e}"
