"""The rows that a rehearsed run writes beside its steps: each step as a tape, and what cannot be rehearsed."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TapeRow:
    """One step: marks in order, and the messages to which they refer by number."""

    step: int
    marks: tuple[tuple[str, int, int], ...]  # what, message number or -1, nanoseconds since the step began
    messages: tuple[tuple[str, int, int], ...]  # kind, bytes of the whole message, ranks of its group
    clock: str = "host"  # cuda_events: the marks are times of the device
    outside: tuple[tuple[str, int, int], ...] = ()  # messages between the previous step and this one
    nodes: tuple[int, ...] = ()  # of each message: nodes that its group lies over; 0, or not there: it holds all ranks


@dataclass(frozen=True)
class SteeredRow:
    """A read by the script of what other ranks would have sent: it may now branch otherwise than in a real run."""

    call: str  # item, tolist, ...
    collective: str  # the collective whose result it was; not named `kind`, which is the row's own
    file: str
    line: int
    text: str


@dataclass(frozen=True)
class UnrehearsedRow:
    """An operation that has no meaning without the other ranks, and what was done instead."""

    what: str
    instead: str
    objects: Literal["", "own", "missing"] = ""  # objects of other ranks: replaced by the rank's own, or missing


@dataclass(frozen=True)
class PolledRow:
    """A file whose existence the script checked repeatedly."""

    path: str
    file: str
    line: int


RehearsalRow = TapeRow | SteeredRow | UnrehearsedRow | PolledRow
REHEARSAL_KINDS = {"tape": TapeRow, "steered": SteeredRow, "unrehearsed": UnrehearsedRow, "polled": PolledRow}
