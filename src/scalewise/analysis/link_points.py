"""The measured times of single collectives of known size, to which a model of the link is fitted."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from statistics import median

from scalewise.records.collectives import collective_kind
from scalewise.records.load import Run
from scalewise.records.rows import StepRow
from scalewise.units import NANO

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
