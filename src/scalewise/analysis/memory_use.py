"""The memory of a rank: its peak by purpose and line, what still fits, whether it grows, and sentences on all of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import PurePath

import numpy as np

from scalewise.analysis.arms import arm_of
from scalewise.analysis.estimate import CONFIDENCE, Estimate, level_text, t_quantile
from scalewise.analysis.inspected_run import Inspection, inspection_of
from scalewise.analysis.machine_state import gpu_bytes_per_rank
from scalewise.analysis.series import series
from scalewise.records.inspection import MemoryByLineRow, MemoryPartsRow
from scalewise.records.load import RankRecord, Run
from scalewise.units import bytes_text, with_capital

PARTS = {  # our names, and the purposes of the records
    "weights": "weights",
    "gradients": "gradients",
    "optimizer state": "optimizer",
    "activations": "activations",
    "half-precision copies": "half copies",
    "DDP buckets": "buckets",
    "input data": "data",
    "work in progress": "other",
}
FIELDS = {  # the same in rows that hold the largest value of each, at whatever moment
    "weights": "weight_bytes",
    "gradients": "gradient_bytes",
    "optimizer state": "optimizer_bytes",
    "activations": "activation_bytes",
    "half-precision copies": "half_copy_bytes",
    "DDP buckets": "bucket_bytes",
}
REST = "rest of the peak"


@dataclass(frozen=True)
class MemoryLine:
    """The bytes of one rank as a function of the samples of a micro-batch."""

    fixed_bytes: float
    bytes_per_sample: float
    how: str  # in words
    most_samples: float  # seen in a micro-batch
    least_bytes: float = 0.0  # needed whatever the batch is

    def bytes_with(self, samples: float) -> float:
        """The bytes with a micro-batch of this many samples."""
        return max(self.least_bytes, self.fixed_bytes + samples * self.bytes_per_sample)

    def largest_batch(self, capacity_bytes: float) -> int | None:
        """The samples of a micro-batch that fit; None if a sample has no visible cost."""
        if self.bytes_per_sample <= 0:
            return None
        if capacity_bytes < self.least_bytes:
            return 0
        return max(0, int((capacity_bytes - self.fixed_bytes) / self.bytes_per_sample))


def memory_line_from_parts(row: MemoryPartsRow, samples: float | None, peak_bytes: int, how: str) -> MemoryLine | None:
    """Divides a peak into what grows with the batch and what stays; None if it cannot.

    Work in progress grows too: without it, 43 times the batch of a transformer on a GPU came out 3.9 % too small.
    """
    if not samples or not row.peak_bytes or not row.activation_bytes:
        return None
    peak = max(peak_bytes, row.peak_bytes)
    stays = row.weight_bytes + row.gradient_bytes + row.optimizer_bytes + row.half_copy_bytes + row.bucket_bytes
    return MemoryLine(
        fixed_bytes=float(peak - row.peak_bytes + stays),
        bytes_per_sample=(row.activation_bytes + sum(row.at_peak.get(one, 0) for one in ("data", "other"))) / samples,
        how=how,
        most_samples=samples,
        least_bytes=float(peak),
    )


@dataclass(frozen=True)
class MemoryParts:
    """Bytes by purpose; together with the rest they are the peak, if the peak is known."""

    parts: dict[str, int]  # by the names of PARTS: at the peak, or the most of each if that moment was not seen
    most: dict[str, int]  # the most of each within the step, by the names of FIELDS
    peak_bytes: int | None
    rest_bytes: int | None  # peak minus parts; negative if the parts did not all exist at the peak
    at_peak: bool = False  # the parts are those of one moment, so that nothing is left over
    outside_bytes: int = 0  # by which the device's peak exceeds all tensors that were seen in the step


@dataclass(frozen=True)
class MemoryChange:
    """The difference b minus a, part by part; the parts and the rest add up to the change of the peak."""

    parts: dict[str, int]
    rest_bytes: int | None
    peak_bytes: int | None

    @property
    def largest(self) -> str:
        """The part that changed most; empty if none did."""
        name = max(self.parts, key=lambda one: abs(self.parts[one]))
        return name if self.parts[name] else ""


def memory_parts(inspection: Inspection | None) -> MemoryParts | None:
    """The parts of an inspected run's memory; None if it did not record memory by purpose."""
    if inspection is None or inspection.memory is None:
        return None
    row, peak = inspection.memory, inspection.peak_bytes
    most = {name: int(getattr(row, field)) for name, field in FIELDS.items()}
    if row.at_peak:
        parts = {name: row.at_peak.get(purpose, 0) for name, purpose in PARTS.items()}
        outside = max(0, (peak or 0) - row.peak_bytes)
        return MemoryParts(parts, most, row.peak_bytes, row.peak_bytes - sum(parts.values()), True, outside)
    parts = {name: most.get(name, 0) for name in PARTS}
    return MemoryParts(parts, most, peak, None if peak is None else peak - sum(parts.values()))


def memory_change(a: MemoryParts, b: MemoryParts) -> MemoryChange:
    """The memory of b minus that of a, part by part."""
    parts = {name: b.parts[name] - a.parts[name] for name in PARTS}
    peaks_known = a.peak_bytes is not None and b.peak_bytes is not None
    peak = (b.peak_bytes or 0) - (a.peak_bytes or 0) if peaks_known else None
    return MemoryChange(parts, None if peak is None else peak - sum(parts.values()), peak)


# Share of a nearly full memory: the CUDA context, and what the allocator reserves beyond what it gives out. Measured
# on an H200: 3.5 % with the largest batch that fitted, beside 0.6 GB of context.
NOT_FOR_TENSORS = 0.05


@dataclass(frozen=True)
class MemoryAccount:
    """The memory of rank 0 of one inspected run."""

    run: str
    experiment: str
    arm: str
    parts: MemoryParts
    by_line: tuple[MemoryByLineRow, ...]  # at the peak, the largest first
    device: str
    capacity_bytes: int | None  # of a GPU, or of the host divided among the ranks
    samples: float | None  # of a rank's micro-batch
    line: MemoryLine | None  # None: what a sample needs is not known

    @property
    def largest_batch(self) -> int | None:
        """Samples of a rank's micro-batch that fit, predicted from one batch; None if not known."""
        if self.line is None or self.capacity_bytes is None:
            return None
        found = self.line.largest_batch((1 - NOT_FOR_TENSORS) * self.capacity_bytes)
        return None if found is None else max(found, int(self.samples or 0))  # the batch that ran fits


def memory_accounts_of(runs: Sequence[Run]) -> tuple[MemoryAccount, ...]:
    """An account for every inspected run that recorded memory by purpose."""
    found = (_account(run) for run in runs if run.spec.inspected)
    return tuple(one for one in found if one is not None)


def _account(run: Run) -> MemoryAccount | None:
    inspection = inspection_of(run)
    parts = memory_parts(inspection)
    if inspection is None or inspection.memory is None or parts is None:
        return None
    samples = _micro_batch_samples(run)
    how = (
        f"from one batch of {samples:g} samples: activations, data and work in progress grow with it" if samples else ""
    )
    return MemoryAccount(
        run=run.spec.name,
        experiment=run.spec.experiment,
        arm=arm_of([run]).label,
        parts=parts,
        by_line=inspection.memory_by_line,
        device=run.spec.device,
        capacity_bytes=_capacity_bytes(run),
        samples=samples,
        line=memory_line_from_parts(inspection.memory, samples, inspection.peak_bytes or 0, how),
    )


def _micro_batch_samples(run: Run) -> float | None:
    found = series(run)
    samples, passes = (found.typical(found.samples), found.typical(found.micro_batches)) if found else (None, None)
    return samples / passes if samples and passes else None


def _capacity_bytes(run: Run) -> int | None:
    if run.machine is None:
        return None
    if run.spec.device == "cuda":
        return gpu_bytes_per_rank(run)
    return run.machine.memory_bytes // max(1, run.spec.ranks) or None


BLOCKS = 8  # means of eighths: neighbouring readings are correlated, means of blocks hardly
LEAST_POINTS = 12  # with fewer, a block would be a single reading
SETTLED_SHARE = 0.25  # of the steps: allocators, caches and worker queues fill up in the first of them
LEAST_GROWTH_SHARE = 0.005  # of what is in use, over the steps seen: less is the jitter of an allocator
LEAST_GROWTH_BYTES = 2**20  # over the steps seen

PROCESS = "memory of the process"
HEAP = "memory on the heap"
ALLOCATED = "GPU memory allocated"
RESERVED = "GPU memory reserved"
WORKERS = "memory of the worker processes"


@dataclass(frozen=True)
class MemoryGrowth:
    """One kind of memory of one rank that grew in the steps seen."""

    run: str
    experiment: str
    rank: int
    kind: str  # one of the names above
    bytes_per_step: Estimate
    first_step: int
    last_step: int
    last_bytes: int
    capacity_bytes: int | None  # None: not known, so it cannot be said when it runs out
    runs_out_step: int | None  # at this rate
    runs_out_earliest_step: int | None  # at the fast end of the interval


def memory_growth_of(run: Run) -> tuple[MemoryGrowth, ...]:
    """Every kind of memory that grew, of every rank; empty if none did, or too little was seen."""
    found = [growth for rank in run.ranks for growth in _of_rank(run, rank)]
    return tuple(sorted(found, key=lambda one: -one.bytes_per_step.value))


def _of_rank(run: Run, rank: RankRecord) -> Iterator[MemoryGrowth]:
    ranks = max(1, len(run.ranks))
    host = run.machine.memory_bytes // ranks if run.machine and run.machine.memory_bytes else None
    gpu = gpu_bytes_per_rank(run)
    levels = rank.levels
    readings: dict[str, tuple[int | None, list[tuple[int, int | None]]]] = {
        PROCESS: (host, [(row.step, row.rss_bytes) for row in levels]),
        HEAP: (host, [(row.step, row.heap_bytes) for row in levels]),
        ALLOCATED: (gpu, [(row.step, row.cuda_allocated_bytes) for row in levels]),
        RESERVED: (gpu, [(row.step, row.cuda_reserved_bytes) for row in levels]),
        WORKERS: (host, _worker_readings(run, rank)),
    }
    for kind, (capacity, points) in readings.items():
        known = [(step, size) for step, size in points if size]
        growth = _growth(known)
        if growth is not None:
            yield _told(run, rank.rank, kind, growth, known, capacity)


def _worker_readings(run: Run, rank: RankRecord) -> list[tuple[int, int | None]]:
    index = rank.rank
    rows = [row for row in run.samples if index < len(row.worker_bytes) and index < len(row.rank_steps)]
    return [(row.rank_steps[index], row.worker_bytes[index]) for row in rows]


def _growth(points: Sequence[tuple[int, int]]) -> Estimate | None:
    """The slope of a line through means of blocks, if it is more than chance and more than jitter; otherwise None."""
    last = points[-1][0] if points else 0
    settled = [(step, size) for step, size in points if step >= SETTLED_SHARE * last]
    if len(settled) < LEAST_POINTS:
        return None
    blocks = np.array([block.mean(axis=0) for block in np.array_split(np.array(settled, dtype=np.float64), BLOCKS)])
    steps, sizes = blocks[:, 0] - blocks[:, 0].mean(), blocks[:, 1]
    power = float(steps @ steps)
    if not power:
        return None
    slope = float(steps @ sizes) / power
    residual = sizes - sizes.mean() - slope * steps
    reach = t_quantile(CONFIDENCE, BLOCKS - 2) * sqrt(float(residual @ residual) / (BLOCKS - 2) / power)
    grown = slope * (settled[-1][0] - settled[0][0])
    if slope - reach <= 0 or grown < max(LEAST_GROWTH_BYTES, LEAST_GROWTH_SHARE * settled[-1][1]):
        return None
    steps_seen, method = settled[-1][0] - settled[0][0], "line through readings"
    return Estimate(slope, slope - reach, slope + reach, steps_seen, 1, method, CONFIDENCE)


def _told(
    run: Run, rank: int, kind: str, growth: Estimate, points: Sequence[tuple[int, int]], capacity_bytes: int | None
) -> MemoryGrowth:
    (first, _), (last, size) = points[0], points[-1]
    left = None if capacity_bytes is None else max(0, capacity_bytes - size)
    return MemoryGrowth(
        run=run.spec.name,
        experiment=run.spec.experiment,
        rank=rank,
        kind=kind,
        bytes_per_step=growth,
        first_step=first,
        last_step=last,
        last_bytes=size,
        capacity_bytes=capacity_bytes,
        runs_out_step=None if left is None else last + round(left / growth.value),
        runs_out_earliest_step=None if left is None else last + round(left / growth.high),
    )


MOST_LINES = 5  # of the script; the others are added up
SMALLEST_SHARE = 0.01  # of the peak, that a line must have allocated to be named


def account_lines(accounts: Sequence[MemoryAccount]) -> list[str]:
    """Sentences on each inspected arm: its peak by purpose, the lines that made most of it, and the largest batch."""
    return [line for account in accounts for line in (_parts(account), *_by_line(account), _largest_batch(account))]


def growth_lines(growths: Sequence[MemoryGrowth]) -> list[str]:
    """A sentence for each kind of memory that grows, for the rank in which it grows fastest."""
    fastest: dict[str, MemoryGrowth] = {}
    for one in growths:
        if one.kind not in fastest or one.bytes_per_step.value > fastest[one.kind].bytes_per_step.value:
            fastest[one.kind] = one
    return [_growth_line(one) for one in fastest.values()]


def _parts(account: MemoryAccount) -> str:
    parts = account.parts
    sizes = sorted(((size, name) for name, size in parts.parts.items() if size), reverse=True)
    shown = ", ".join(f"{name} {bytes_text(size)}" for size, name in sizes)
    peak = f"{bytes_text(parts.peak_bytes)} of tensors at the peak" if parts.peak_bytes else "peak not known"
    when = "" if parts.at_peak else " (the most of each, not of one moment)"
    return f"Memory of {account.arm}, one inspected step: {peak}: {shown}{when}."


def _by_line(account: MemoryAccount) -> list[str]:
    least = SMALLEST_SHARE * (account.parts.peak_bytes or 0)
    with_line = [row for row in account.by_line if row.file and row.bytes > least]
    if not with_line:
        return ["No line of the script made it: it was there before the step, or backward made it."]
    shown = [
        f"{bytes_text(row.bytes)} {row.purpose} {PurePath(row.file).name}:{row.line} `{row.text}`"
        for row in with_line[:MOST_LINES]
    ]
    rest = sum(row.bytes for row in with_line[MOST_LINES:])
    more = f"; other lines {bytes_text(rest)}" if rest else ""
    return [f"Made by: {'; '.join(shown)}{more}."]


def _largest_batch(account: MemoryAccount) -> str:
    if account.line is None:
        return f"Largest batch of {account.arm}: not known, because what a sample needs was not seen."
    where = "the GPU" if account.device == "cuda" else "a rank's share of the host"
    if account.capacity_bytes is None or account.largest_batch is None:
        return f"Largest batch of {account.arm}: not known, because the memory of {where} is not."
    room = f"{bytes_text(account.capacity_bytes)} of {where}"
    return (
        f"Largest batch that fits in {room}: about {account.largest_batch:,} samples in a rank's micro-batch "
        f"(predicted {account.line.how})."
    )


def _growth_line(one: MemoryGrowth) -> str:
    pace = one.bytes_per_step
    interval = f"{level_text(pace.level)} interval {bytes_text(pace.low)} to {bytes_text(pace.high)}"
    kind = with_capital(one.kind)
    text = f"{kind} of rank {one.rank} in {one.run} grows by {bytes_text(pace.value)} a step ({interval})"
    if one.runs_out_step is None:
        return f"{text}; how much there is, is not known."
    return (
        f"{text}: at this pace it runs out at about step {one.runs_out_step:,}, at the earliest at step "
        f"{one.runs_out_earliest_step:,}, when all {bytes_text(one.capacity_bytes or 0)} are taken."
    )
