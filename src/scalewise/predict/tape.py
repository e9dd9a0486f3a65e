"""The tape of one rehearsed step of one rank: computing, and when a message is ready and when it is waited for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Phase = Literal["data", "forward", "backward", "optimizer", "own"]


@dataclass(frozen=True)
class Compute:
    """A time in which the rank computes, independent of any message."""

    seconds: float
    phase: Phase = "own"


@dataclass(frozen=True)
class Issue:
    """The moment at which a message is ready to be sent."""

    number: int  # of the message in this step
    kind: str  # of collective
    size_bytes: float  # of the whole message, as `predict.collective_times` counts it
    ranks: int  # of its group; 0: all ranks
    nodes: int = 0  # over which its group lies; 0: as few as hold it


@dataclass(frozen=True)
class Wait:
    """The moment at which the rank cannot continue without that message."""

    number: int


Entry = Compute | Issue | Wait


@dataclass(frozen=True)
class Tape:
    """One step in order, or several that differ. Messages are sent one after another, in the order they are issued."""

    entries: tuple[Entry, ...]
    ranks: int  # for which the rehearsal was made
    rank: int
    samples: float | None  # of this rank's step
    micro_batches: int = 1
    steps: int = 1  # number of steps in its entries; figures of the tape are means over them

    @property
    def compute_seconds(self) -> float:
        """The computing time of a step."""
        return sum(one.seconds for one in self.entries if isinstance(one, Compute)) / self.steps

    @property
    def messages(self) -> tuple[Issue, ...]:
        """All messages of all its steps."""
        return tuple(one for one in self.entries if isinstance(one, Issue))

    def scaled(self, factors: dict[Phase, float]) -> "Tape":
        """The same step with the time of each phase multiplied by its factor."""
        entries = [
            replace(one, seconds=one.seconds * factors.get(one.phase, 1.0)) if isinstance(one, Compute) else one
            for one in self.entries
        ]
        return replace(self, entries=tuple(entries))


def tape_of_steps(tapes: Sequence[Tape]) -> Tape:
    """One tape of all these steps, which differ."""
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
