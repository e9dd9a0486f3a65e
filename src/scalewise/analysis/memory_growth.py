"""Finds whether the memory of a rank grows from step to step, how fast, and when it runs out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from scalewise.analysis.estimate import CONFIDENCE, Estimate, t_quantile
from scalewise.analysis.machine_state import gpu_bytes_per_rank
from scalewise.records.load import RankRecord, Run

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
