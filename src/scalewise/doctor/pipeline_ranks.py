"""Finds pipelines of ranks that pass activations on and gradients back, by the order of their notes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import median

from scalewise.doctor.case import Case, RankCase
from scalewise.doctor.windows import Window
from scalewise.records.notes import BackwardNote, CollectiveDoneNote, CollectiveNote, ForwardNote, Note, StepNote

LEAST_WINDOWS = 3
_WAITS = ("recv", "wait")


@dataclass(frozen=True)
class Chain:
    """The ranks of one pipeline, in the order in which activations pass through them."""

    ranks: tuple[RankCase, ...]

    @property
    def windows(self) -> Sequence[Window]:
        """The windows of the first stage."""
        return self.ranks[0].windows

    @property
    def in_flight(self) -> int:
        """The most pieces of the batch that the first stage has sent before a gradient came back."""
        return max(_ahead(_letters(window, self.ranks[1].rank)) for window in self.windows)


def _ahead(letters: str) -> int:
    """Returns the most forward passes ahead of their backward passes; calls with no message in between count once."""
    ahead = most = 0
    for letter, _ in groupby(letters):
        ahead += {"F": 1, "B": -1}.get(letter, 0)
        most = max(most, ahead)
    return most


def chains(case: Case) -> list[Chain]:
    """Returns each pipeline once, from its first stage to its last."""
    by_number = {rank.rank: rank for rank in case.ranks if len(rank.windows) >= LEAST_WINDOWS}
    after = {
        number: next((peer for peer in _peers(rank) if _passes_on(rank, by_number.get(peer))), None)
        for number, rank in by_number.items()
    }
    firsts = [number for number, following in after.items() if following is not None and number not in after.values()]
    return [Chain(tuple(by_number[one] for one in _follow(first, after))) for first in firsts]


def _follow(first: int, after: dict[int, int | None]) -> Iterator[int]:
    seen: set[int] = set()
    number: int | None = first
    while number is not None and number not in seen:
        seen.add(number)
        yield number
        number = after.get(number)


def _peers(rank: RankCase) -> list[int]:
    return sorted({note.peer for note in rank.all(CollectiveNote) if note.operation == "send" and note.peer >= 0})


def _passes_on(rank: RankCase, peer: RankCase | None) -> bool:
    """Returns True if every window has this order: forward, send; on the peer forward, backward, send; backward."""
    if peer is None or peer is rank:
        return False
    here = all(_goes_ahead(window, peer.rank) for window in rank.windows)
    return here and all(_comes_after(window, rank.rank) for window in peer.windows)


def _goes_ahead(window: Window, peer: int) -> bool:
    letters = _letters(window, peer)
    return _in_order(letters, "FsrB") and not letters.lstrip("F").startswith("r")


def _comes_after(window: Window, peer: int) -> bool:
    letters = _letters(window, peer)
    return _in_order(letters, "rFBs") and letters.lstrip("F").startswith("r")


def _letters(window: Window, peer: int) -> str:
    """Returns forward and backward passes and messages with this rank in order: F, B, s (send), r (recv)."""
    letters = ""
    for note in window.notes:
        if isinstance(note, ForwardNote) and note.trains:
            letters += "F"
        elif isinstance(note, BackwardNote):
            letters += "B"
        elif isinstance(note, CollectiveNote) and note.peer == peer and note.operation in ("send", "recv"):
            letters += note.operation[0]
    return letters


def _in_order(letters: str, wanted: str) -> bool:
    found = iter(letters)
    return all(letter in found for letter in wanted)


def waiting_share(rank: RankCase) -> float | None:
    """Returns the share of a window in which the rank waits for a message, median over the windows."""
    steps = [note for note in rank.notes if isinstance(note, StepNote)]
    shares = [_share(rank.notes, before, step) for before, step in pairwise(steps)]
    return median(shares) if shares else None


def _share(notes: Sequence[Note], before: StepNote, step: StepNote) -> float:
    waited = sum(
        note.duration_ns
        for note in notes
        if isinstance(note, CollectiveDoneNote) and note.operation in _WAITS and before.at_ns < note.at_ns <= step.at_ns
    )
    return min(1.0, waited / max(1, step.at_ns - before.at_ns))
