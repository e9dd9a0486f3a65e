"""Predicts thousands of combinations from one rehearsal: ranks, batch, accumulation, buckets and link.

Combinations of one shape (the same accumulation and the same buckets) differ in numbers only, and are computed
together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import exp
from operator import truediv
from typing import Literal

import numpy as np

from scalewise.analysis.estimate import Estimate, Floats
from scalewise.analysis.memory_parts import MemoryLine
from scalewise.predict.collective_times import seconds
from scalewise.predict.compute_work import PHASES, WorkLine, samples_of
from scalewise.predict.link import Link
from scalewise.predict.prediction import QUANTILE, Spread, around
from scalewise.predict.tape import Phase, Tape
from scalewise.predict.timeline import APART, Sharing
from scalewise.predict.timeline_batch import steps_seconds
from scalewise.predict.what_if import bucket_bytes, groups_by_cap, regrouped, with_accumulation, with_batch

SURE = Spread()
By = Literal["throughput", "per_rank"]


@dataclass(frozen=True)
class Grid:
    """The values that are combined with each other."""

    ranks: tuple[int, ...]
    links: tuple[Link, ...]
    batches: tuple[float, ...] = (1.0,)  # as multiples of the rehearsed batch
    accumulations: tuple[int, ...] = (1,)  # as multiples of the rehearsed accumulation
    buckets_bytes: tuple[float | None, ...] = (None,)  # None: as rehearsed; sizes need a rehearsal with small buckets


@dataclass(frozen=True)
class SweepRow:
    """One combination, with its prediction."""

    ranks: int
    batch: float
    accumulation: int
    bucket_bytes: float | None
    link: str
    step: Estimate  # seconds
    samples: float  # of all ranks in one step; in batches of one rank if samples are not known
    throughput: Estimate  # samples a second of all ranks
    peak_bytes: float | None = None
    fits: bool | None = None  # None: not known


@dataclass(frozen=True)
class Ground:
    """The rehearsal and the limits on which the sweep is based."""

    tape: Tape
    line: WorkLine
    sharing: Sharing = APART
    spread: Spread = SURE
    fine: Tape | None = None  # the same step with a bucket for each gradient
    memory: MemoryLine | None = None
    capacity_bytes: float | None = None


def sweep(ground: Ground, grid: Grid, by: By = "throughput") -> tuple[SweepRow, ...]:
    """All combinations, the best first; those that do not fit in memory last."""
    rows: list[SweepRow] = []
    for accumulation, bucket in product(grid.accumulations, grid.buckets_bytes):
        shape = _shape(ground, accumulation, bucket)
        if shape is not None:
            rows += _run(ground, grid, shape, accumulation, bucket)
    return tuple(sorted(rows, key=lambda row: (row.fits is False, -_worth(row, by))))


def _worth(row: SweepRow, by: By) -> float:
    return row.throughput.value if by == "throughput" else row.throughput.value / row.ranks


def _shape(ground: Ground, accumulation: int, bucket: float | None) -> Tape | None:
    """The step with this accumulation and bucket size and the rehearsed batch; None if it cannot be made so."""
    tape = ground.tape if bucket is None else ground.fine
    if tape is None:
        return None
    if bucket is not None:
        tape = regrouped(tape, groups_by_cap(bucket_bytes(tape), bucket))
    return tape if accumulation == 1 else with_accumulation(tape, accumulation)


def _run(ground: Ground, grid: Grid, shape: Tape, accumulation: int, bucket: float | None) -> Iterator[SweepRow]:
    combined = list(product(grid.ranks, grid.batches, grid.links))
    factors = _factors(ground.line, shape, [batch for _, batch, _ in combined])
    messages = _messages(ground, shape, combined)
    wires = np.array([exp(QUANTILE * link.spread) for _, _, link in combined])
    longer = exp(QUANTILE * ground.spread.compute)
    slower = {phase: values * longer for phase, values in factors.items()}
    step, by_work, by_wire = (
        steps_seconds(shape, sent, work, ground.sharing)
        for sent, work in ((messages, factors), (messages, slower), (messages * wires, factors))
    )
    safe = np.maximum(step, 1e-12)
    moved = [np.log(np.maximum(one, 1e-12) / safe) for one in (by_work, by_wire)]
    reach = np.maximum(np.hypot(moved[0], moved[1]), QUANTILE * ground.spread.model)
    corrected = safe * exp(-ground.spread.shift)
    per_rank = shape.samples or float(max(1, shape.micro_batches))
    for (ranks, batch, link), value, wide in zip(combined, corrected.tolist(), reach.tolist(), strict=True):
        step_seconds = around(value, wide, ground.tape.steps)
        samples = per_rank * batch * ranks
        peak = ground.memory.bytes_with(samples_of(ground.tape) * batch) if ground.memory else None
        known = peak is not None and ground.capacity_bytes is not None
        yield SweepRow(
            ranks, batch, accumulation, bucket, link.name,
            step_seconds, samples, step_seconds.through(partial(truediv, samples), positive=True),
            peak, (peak or 0.0) <= (ground.capacity_bytes or 0.0) if known else None,
        )  # fmt: skip


def _factors(line: WorkLine, shape: Tape, batches: Sequence[float]) -> dict[Phase, Floats]:
    known = {batch: line.factors(samples_of(shape), batch) for batch in set(batches)}
    return {phase: np.array([known[batch].get(phase, 1.0) for batch in batches]) for phase in PHASES}


def _messages(ground: Ground, shape: Tape, combined: Sequence[tuple[int, float, Link]]) -> Floats:
    """Seconds of each message (a row) in every combination; equal messages are computed once."""
    batches = list(dict.fromkeys(batch for _, batch, _ in combined))
    resized = [with_batch(shape, batch, ground.line).messages for batch in batches]
    alike: dict[tuple[str, int, int, tuple[float, ...]], int] = {}
    places = []
    for same in zip(*resized, strict=True):
        key = (same[0].kind, same[0].ranks, same[0].nodes, tuple(one.size_bytes for one in same))
        places.append(alike.setdefault(key, len(alike)))
    column_of = {batch: column for column, batch in enumerate(batches)}
    known = np.zeros((len(alike), len(combined)))
    for (kind, group, nodes, sizes), row in alike.items():
        of_all = group in (0, shape.ranks)
        for column, (ranks, batch, link) in enumerate(combined):
            known[row, column] = seconds(link, kind, sizes[column_of[batch]], ranks if of_all else group, nodes)
    return known[np.array(places, dtype=np.intp)]
