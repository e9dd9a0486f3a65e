"""Tells what ranks do together: each rank's collectives in order, who waited for whom, and pipelines of ranks.

Ranks of a group must enter the same operations in the same order. The averaging of gradients inside a DDP backward
pass counts as one, called `backward`; messages between two ranks have no order that all ranks share.
"""

import linecache
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median

from scalewise.doctor.case import Abstain, Case, RankCase, Window
from scalewise.launch.failure_logs import SECONDARY, waits_for_others
from scalewise.records.collectives import collective_kind
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import (
    BUFFERS,
    NOWHERE,
    BackwardNote,
    CollectiveDoneNote,
    CollectiveNote,
    ForwardNote,
    Note,
    StepNote,
)
from scalewise.records.outcome import Outcome, RankEnd

# A run that was ended at its limit was still working, so its ranks end anywhere. One that made no progress has hung.
ENDED_BADLY = ("hung", "left_early", "killed", "raised")
BACKWARD = "backward"
WAIT = "wait"  # for a message that was begun before
_FRAME = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')


@dataclass(frozen=True)
class Operation:
    """An operation that needs other ranks."""

    name: str
    size_bytes: int
    place: PlaceRow | None
    group: tuple[int, ...] = ()  # empty: all ranks
    peer: int = NOWHERE

    @property
    def line(self) -> tuple[str, int] | None:
        """The file and line of the call, which are the same on all ranks, unlike the numbers of places."""
        return (self.place.file, self.place.line) if self.place else None

    def matches(self, other: "Operation") -> bool:
        """Returns True if the two operations can meet; an unknown size fits any."""
        sized = collective_kind(self.name).same_size and self.size_bytes and other.size_bytes
        return self.name == other.name and (not sized or self.size_bytes == other.size_bytes)

    def told(self) -> str:
        """Returns text such as `all_reduce`, `a send to rank 1`, `the backward pass of DistributedDataParallel`."""
        if self.name == BACKWARD:
            return "the backward pass of DistributedDataParallel"
        if self.name == BUFFERS:
            return "DistributedDataParallel's broadcast of buffers before a forward pass"
        if self.name in ("send", "recv") and self.peer != NOWHERE:
            return f"a {self.name} {'to' if self.name == 'send' else 'from'} rank {self.peer}"
        return {WAIT: "the wait for a message", "batch_isend_irecv": "a batch of messages"}.get(self.name, self.name)


@dataclass(frozen=True)
class RankState:
    """The state of one rank when the run ended."""

    rank: int
    operation: Operation | None  # the operation that it had entered and not left
    place: PlaceRow | None
    left: bool  # it had ended in order, with exit code 0
    steps: int

    @property
    def blocked(self) -> bool:
        """True if the rank was in an operation that needs others."""
        return self.operation is not None and not self.left

    def told(self) -> str:
        """Returns one sentence for a finding's evidence."""
        at = f" at {short(self.place)}" if self.place else ""
        if self.left:
            return f"rank {self.rank} had left with exit code 0 after {self.steps} steps"
        if self.operation is not None:
            return f"rank {self.rank} was in {self.operation.told()}{at}, after {self.steps} steps"
        return f"rank {self.rank} was in none that was seen{at}, after {self.steps} steps"


def short(place: PlaceRow) -> str:
    """Returns a place as `train.py:34`."""
    return f"{Path(place.file).name}:{place.line}"


def outcome_of_ranks(case: Case) -> Outcome:
    """Returns how the run ended, for checks that compare ranks; abstains where that cannot be done."""
    if case.run.outcome is None:
        raise Abstain("how the run ended is not known")
    if len(case.ranks) < 2:
        raise Abstain("only one rank left notes")
    return case.run.outcome


def rank_states(case: Case) -> dict[int, RankState]:
    """Returns the state of each rank that left notes."""
    ends = {end.rank: end for end in case.run.outcome.ranks} if case.run.outcome else {}
    backward_lines = {
        (row.file, row.line) for rank in case.ranks for note in rank.all(BackwardNote) if (row := rank.place(note))
    }
    return {rank.rank: _state_of(rank, ends.get(rank.rank), backward_lines) for rank in case.ranks}


def _state_of(rank: RankCase, end: RankEnd | None, backward_lines: set[tuple[str, int]]) -> RankState:
    left = end is not None and end.exit_code == 0
    place = _last_line(rank, end)
    operation = None if left else _entered(rank)
    if operation is None and not left and _in_backward(rank, end, place, backward_lines):
        operation = Operation(BACKWARD, 0, place, _group_of(rank, rank.notes))
    elif operation is None and not left and end is not None and waits_for_others(end.stack):
        found = _FRAME.search(end.stack[0])
        operation = Operation(found["name"] if found else end.doing, 0, place)
    if operation is not None and operation.place is not None:
        place = operation.place
    return RankState(rank.rank, operation, place, left, len(rank.windows))


def _entered(rank: RankCase) -> Operation | None:
    """Returns the operation that was entered last and has not returned, or None."""
    calls = [note for note in rank.notes if isinstance(note, CollectiveNote | CollectiveDoneNote)]
    last = calls[-1] if calls else None
    if not isinstance(last, CollectiveNote):
        return None
    entered = _operation(rank, last)
    begun = [note for note in calls if isinstance(note, CollectiveNote) and not note.waits]
    if last.operation == WAIT and begun and begun[-1].operation in ("send", "recv"):
        return replace(entered, name=begun[-1].operation, peer=begun[-1].peer)  # the message that it waits for
    return entered


def _operation(rank: RankCase, note: CollectiveNote) -> Operation:
    return Operation(note.operation, note.size_bytes, rank.place(note), tuple(note.ranks), note.peer)


def _in_backward(
    rank: RankCase, end: RankEnd | None, place: PlaceRow | None, backward_lines: set[tuple[str, int]]
) -> bool:
    """Returns True if the rank was averaging gradients, as its last training forward pass had prepared."""
    if not _armed(rank.notes):
        return False
    if end is not None and end.stack:
        return "_engine_run_backward" in end.stack[0]
    if rank.failure is not None:
        at = place is not None and (place.file, place.line) in backward_lines
        return at and bool(SECONDARY.search(rank.failure.message))
    return end is not None and end.doing == "backward"


def _armed(notes: Sequence[Note]) -> bool:
    for note in reversed(notes):
        if isinstance(note, BackwardNote):
            return False
        if isinstance(note, ForwardNote) and note.trains:
            return note.wrapper != NOWHERE and note.sync
    return False


def _group_of(rank: RankCase, notes: Sequence[Note]) -> tuple[int, ...]:
    """Returns the ranks of the wrapper that was called last; empty: all ranks."""
    forwards = (note for note in reversed(notes) if isinstance(note, ForwardNote) and note.wrapper != NOWHERE)
    called = next(forwards, None)
    rows = [row for row in rank.wrappers if called is not None and row.index == called.wrapper]
    world = rank.record.start.world_size if rank.record.start else 0
    return () if not rows or len(rows[0].ranks) >= world else rows[0].ranks


def _last_line(rank: RankCase, end: RankEnd | None) -> PlaceRow | None:
    """Returns the innermost line of the script on the stack, or in the traceback that the script ended with."""
    if rank.failure is not None and rank.failure.place in rank.places:
        return rank.places[rank.failure.place]
    files = {row.file for row in rank.places.values()}
    known = {(row.file, row.line): row for row in rank.places.values()}
    for frame in end.stack if end is not None else ():
        found = _FRAME.search(frame)
        if found and found["file"] in files:
            key = (found["file"], int(found["line"]))
            return known.get(key) or PlaceRow(NOWHERE, *key, found["name"], linecache.getline(*key).strip()[:200])
    return None


def sequences(case: Case, stood: dict[int, RankState]) -> dict[tuple[int, ...], dict[int, list[Operation]]]:
    """Returns each group's operations by rank, in the order they were entered; the last may never have returned."""
    found: dict[tuple[int, ...], dict[int, list[Operation]]] = {}
    for rank in case.ranks:
        for operation in _operations(rank, stood[rank.rank]):
            found.setdefault(operation.group, {}).setdefault(rank.rank, []).append(operation)
    everyone = tuple(rank.rank for rank in case.ranks)
    return {
        group: {rank: by_rank.get(rank, []) for rank in everyone if not group or rank in group}
        for group, by_rank in found.items()
    }


def _operations(rank: RankCase, state: RankState) -> list[Operation]:
    found = []
    armed = False
    called: list[Note] = []
    for note in rank.notes:
        if isinstance(note, ForwardNote) and note.trains and note.wrapper != NOWHERE and note.sync:
            armed, called = True, [note]
        elif isinstance(note, BackwardNote) and armed:
            armed = False
            found.append(Operation(BACKWARD, 0, rank.place(note), _group_of(rank, called)))
        elif isinstance(note, CollectiveNote) and not _is_message(note.operation):
            found.append(_operation(rank, note))
    last = state.operation
    if last is not None and last.name == BACKWARD:
        found.append(last)
    return found


def _is_message(operation: str) -> bool:
    return operation == WAIT or collective_kind(operation).message


def first_mismatch(by_rank: dict[int, list[Operation]]) -> dict[int, Operation] | None:
    """Returns the first operations of a group that cannot meet, by rank; None if the ranks agree as far as they got."""
    shortest = min(map(len, by_rank.values()), default=0)
    for index in range(shortest):
        here = {rank: operations[index] for rank, operations in by_rank.items()}
        first = next(iter(here.values()))
        if not all(operation.matches(first) for operation in here.values()):
            return here
    return None


def missing_ranks(
    by_rank: dict[int, list[Operation]], stood: dict[int, RankState]
) -> tuple[Operation, list[int]] | None:
    """Returns an operation in which a rank is blocked, with the ranks that never entered it; None if there is none."""
    for rank, operations in by_rank.items():
        if not operations or not stood[rank].blocked or operations[-1].line != _line_of(stood[rank]):
            continue
        missing = [other for other, theirs in by_rank.items() if len(theirs) < len(operations)]
        if missing:
            return operations[-1], missing
    return None


def _line_of(state: RankState) -> tuple[str, int] | None:
    return state.operation.line if state.operation else None


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
