"""What a rehearsed run writes beside its steps: each step on tape, and what cannot be rehearsed."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TapeRow:
    """One step: marks in order, and the messages they speak of by number."""

    step: int
    marks: tuple[tuple[str, int, int], ...]  # what, message number or -1, nanoseconds since the step began
    messages: tuple[tuple[str, int, int], ...]  # kind, bytes of the whole message, ranks of its group
    clock: str = "host"  # cuda_events: the marks are moments of the device
    outside: tuple[tuple[str, int, int], ...] = ()  # messages between the step before and this one
    nodes: tuple[int, ...] = ()  # of each message: that its group lies over; 0, or not there: it holds all ranks


@dataclass(frozen=True)
class SteeredRow:
    """The script looked at what other ranks would have sent: from here on it may go another way than in truth."""

    call: str  # item, tolist, ...
    collective: str  # whose result it was; not `kind`, which is the row's own
    file: str
    line: int
    text: str


@dataclass(frozen=True)
class UnrehearsedRow:
    """Something that has no meaning without the other ranks, and what was done instead."""

    what: str
    instead: str
    objects: Literal["", "own", "missing"] = ""  # of other ranks: the rank's own stand for them, or there are none


@dataclass(frozen=True)
class PolledRow:
    """The script asked again and again whether a file is there."""

    path: str
    file: str
    line: int


RehearsalRow = TapeRow | SteeredRow | UnrehearsedRow | PolledRow
REHEARSAL_KINDS = {"tape": TapeRow, "steered": SteeredRow, "unrehearsed": UnrehearsedRow, "polled": PolledRow}
