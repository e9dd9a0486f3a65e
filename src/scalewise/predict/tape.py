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
    """A step in order, or several that differ. Messages go out one after another, in the order they are issued."""

    entries: tuple[Entry, ...]
    ranks: int  # that the rehearsal stood for
    rank: int
    samples: float | None  # of this rank's step
    micro_batches: int = 1
    steps: int = 1  # that its entries hold; whatever is told of it is told of one, the mean

    @property
    def compute_seconds(self) -> float:
        """All work of a step."""
        return sum(one.seconds for one in self.entries if isinstance(one, Compute)) / self.steps

    @property
    def messages(self) -> tuple[Issue, ...]:
        """All of its messages, of all its steps."""
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


def in_a_row(tapes: Sequence[Tape]) -> Tape:
    """Steps that differ as one tape of them all."""
    entries: list[Entry] = []
    numbers = 0
    for tape in tapes:
        entries += [
            one if isinstance(one, Compute) else replace(one, number=numbers + one.number) for one in tape.entries
        ]
        numbers += 1 + max((one.number for one in tape.messages), default=0)
    known = [tape.samples for tape in tapes if tape.samples is not None]
    samples = sum(known) / len(known) if known else None
    return replace(tapes[0], entries=tuple(entries), samples=samples, steps=len(tapes))
