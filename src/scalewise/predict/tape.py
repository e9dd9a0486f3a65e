"""One step of one rank as it was rehearsed: what it computes, when a message is ready, and when it is waited for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Phase = Literal["data", "forward", "backward", "optimizer", "own"]


@dataclass(frozen=True)
class Compute:
    """The rank works, and nothing else can make it quicker."""

    seconds: float
    phase: Phase = "own"


@dataclass(frozen=True)
class Issue:
    """A message is ready: the communication stream may take it."""

    number: int  # of the message in this step
    kind: str  # of collective
    size_bytes: float  # of the whole message, as `predict.collectives` counts it
    ranks: int  # of its group; 0: all ranks
    nodes: int = 0  # that its group lies over; 0: as few as hold it


@dataclass(frozen=True)
class Wait:
    """The rank cannot go on without that message."""

    number: int


Entry = Compute | Issue | Wait


@dataclass(frozen=True)
class Tape:
    """A step in order. Messages go out one after another, in the order they are issued."""

    entries: tuple[Entry, ...]
    ranks: int  # that the rehearsal stood for
    rank: int
    samples: float | None  # of this rank's step
    micro_batches: int = 1

    @property
    def compute_seconds(self) -> float:
        """All of its work."""
        return sum(one.seconds for one in self.entries if isinstance(one, Compute))

    @property
    def messages(self) -> tuple[Issue, ...]:
        """All of its messages."""
        return tuple(one for one in self.entries if isinstance(one, Issue))

    def scaled(self, factors: dict[Phase, float]) -> "Tape":
        """The same step with phases so many times as long."""
        entries = [
            replace(one, seconds=one.seconds * factors.get(one.phase, 1.0)) if isinstance(one, Compute) else one
            for one in self.entries
        ]
        return replace(self, entries=tuple(entries))

    def with_messages(self, entries: Sequence[Entry]) -> "Tape":
        """The same step with other entries."""
        return replace(self, entries=tuple(entries))
