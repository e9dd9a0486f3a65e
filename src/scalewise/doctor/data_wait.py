"""Measures how long a rank waits for its data in each loop iteration, from notes of settled windows, in blocks."""

from dataclasses import dataclass
from statistics import median

from scalewise.doctor.case import RankCase
from scalewise.doctor.rank_time import quantile
from scalewise.doctor.windows import Window
from scalewise.records.notes import BatchNote, ForwardNote, LoaderNote

QUICK = 0.2
WARM_UP = 2  # windows left out for caches, first allocations, and the closer examination of the first windows


@dataclass(frozen=True)
class Waiting:
    """The medians over blocks of settled loop iterations, in nanoseconds."""

    loader: int  # the loader that is waited for most
    wait_ns: float
    quick_ns: float  # the wait in quick blocks: four of five are longer
    iteration_ns: float
    share: float  # share of the iteration that is spent waiting
    blocks_above: float  # share of the blocks that lie above both limits
    windows: int


def waiting(rank: RankCase, feeding: frozenset[int], block: int, least_ns: float, least_share: float) -> Waiting | None:
    """Returns how long a rank waits for its training loaders; None if there are no settled windows.

    Workers deliver batches in bursts, so windows are averaged in blocks of as many as there are workers.
    """
    pairs = [
        (later.notes[-1].at_ns - earlier.notes[-1].at_ns, later)
        for earlier, later in zip(rank.windows, rank.windows[1:], strict=False)
        if later.number >= WARM_UP and _settled(later, feeding)
    ]
    blocks = [pairs[start : start + block] for start in range(0, len(pairs) - block + 1, block)]
    waits = [sum(_wait(window, feeding) for _, window in one) / block for one in blocks]
    spans = [max(sum(span for span, _ in one) / block, 1.0) for one in blocks]
    if not blocks:
        return None
    shares = [wait / span for wait, span in zip(waits, spans, strict=True)]
    above = sum(wait > least_ns and share > least_share for wait, share in zip(waits, shares, strict=True))
    by_loader = {loader: sum(_wait(window, frozenset({loader})) for _, window in pairs) for loader in sorted(feeding)}
    return Waiting(
        loader=max(by_loader, key=lambda loader: by_loader[loader]),
        wait_ns=median(waits),
        quick_ns=quantile(waits, QUICK),
        iteration_ns=median(spans),
        share=median(shares),
        blocks_above=above / len(blocks),
        windows=len(blocks) * block,
    )


def _settled(window: Window, feeding: frozenset[int]) -> bool:
    """Returns True if the window has no beginning of an epoch, when workers are started, and no evaluation."""
    return not any(
        isinstance(note, LoaderNote)
        or (isinstance(note, ForwardNote) and not note.trains)
        or (isinstance(note, BatchNote) and note.loader not in feeding)
        for note in window.notes
    )


def _wait(window: Window, feeding: frozenset[int]) -> int:
    return sum(note.wait_ns for note in window.batches if note.loader in feeding)
