"""Simulates ranks that wait for each other: the steps of N ranks, from those of the few that were rehearsed.

A message begins when its last rank has come to it, so the slowest counts at every message and not only at the end of a
step; and whoever is early waits, as a part of its own step. Its threads are at work from the first rank on, so messages
get in each other's way from then on. Where fewer processes rehearsed than there are ranks, each
stands for several, a step later for each further one: so the slowest of many is taken from the steps that were seen.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from scalewise.predict.tape import Compute, Issue, Tape, Wait
from scalewise.predict.timeline import APART, Sharing

MOST_RANKS = 16  # of those that are simulated: the slowest of more is hardly slower
MOST_ENTRIES = 20_000  # of all ranks and steps; with more, fewer steps are simulated
LEAST_STEPS = 8
MessageSeconds = Callable[[Issue], float]


def steps_together(
    processes: Sequence[Sequence[Tape]], ranks: int, message_seconds: MessageSeconds, sharing: Sharing = APART
) -> list[float] | None:
    """The step of the slowest rank, for each step; None where ranks do not all send the same messages in one order."""
    common = min((len(tapes) for tapes in processes), default=0)
    if ranks < 2 or common < 2 or not same_messages([tape for tapes in processes for tape in tapes]):
        return None
    simulated = min(ranks, MOST_RANKS)
    entries = simulated * max(1, len(processes[0][0].entries))
    count = min(common, max(LEAST_STEPS, MOST_ENTRIES // entries))
    rows = [
        [processes[rank % len(processes)][(step + rank // len(processes)) % common] for step in range(count)]
        for rank in range(simulated)
    ]
    return _Together(rows, message_seconds, sharing).run()


def same_messages(tapes: Sequence[Tape]) -> bool:
    """Tells whether these steps send the same messages among all ranks, in the same order, one step to a tape."""
    first = [(one.kind, one.size_bytes) for one in tapes[0].messages]
    return all(
        tape.steps == 1
        and [(one.kind, one.size_bytes) for one in tape.messages] == first
        and all(one.ranks in (0, tape.ranks) for one in tape.messages)
        for tape in tapes
    )


@dataclass
class _Message:
    """A message that some ranks have come to."""

    issue: Issue
    beside: tuple[int, ...] = ()  # the messages that had not ended when its first rank came to it
    came: int = 0
    left: float = inf  # seconds; not known before its last rank has come


class _Together:
    """The state of all ranks and of the messages between them."""

    def __init__(self, rows: Sequence[Sequence[Tape]], message_seconds: MessageSeconds, sharing: Sharing) -> None:
        self._seconds_of, self._sharing = message_seconds, sharing
        self._ranks, self._steps = len(rows), len(rows[0])
        self._work = [_entries(tapes) for tapes in rows]
        self._left = np.full(self._ranks, inf)  # of what a rank computes now; inf: it waits, or has ended
        self._waits: list[int | None] = [None] * self._ranks
        self._messages: list[_Message] = []
        self._head = 0  # the first message that has not ended
        self._ends: list[list[float]] = [[] for _ in rows]
        self._now = 0.0

    def run(self) -> list[float]:
        """Simulates to the end; the step of a rank lasts from its own end of the one before."""
        for rank in range(self._ranks):
            self._proceed(rank)
        while True:
            head = self._messages[self._head] if self._head < len(self._messages) else None
            under_way = head is not None and head.came == self._ranks
            computing = np.isfinite(self._left)
            rate = 1 / (1 + self._sharing.work) if under_way else 1.0
            of_message = 1 / (1 + self._sharing.work * float(computing.mean()))
            until_rank = float(self._left.min()) / rate
            until_message = head.left / of_message if head is not None and under_way else inf
            passed = min(until_rank, until_message)
            if passed == inf:
                break
            self._now += passed
            self._left[computing] -= passed * rate
            if head is not None and under_way:
                head.left -= passed * of_message
                if until_message <= until_rank:
                    self._end_of(self._head)
            for at in np.flatnonzero(self._left <= 1e-12).tolist():
                self._proceed(at)
        steps = np.diff(np.array(self._ends), axis=1, prepend=0.0)
        return [float(step) for step in steps.max(axis=0)]

    def _end_of(self, number: int) -> None:
        self._head = number + 1
        for rank, waits in enumerate(self._waits):
            if waits is not None and waits <= number:
                self._proceed(rank)

    def _proceed(self, rank: int) -> None:
        """Goes on to the rank's next computing, or to a message that it has to wait for."""
        self._left[rank], self._waits[rank] = inf, None
        for entry, number in self._work[rank]:
            if entry is None:
                self._ends[rank].append(self._now)
            elif isinstance(entry, Compute):
                if entry.seconds > 0:
                    self._left[rank] = entry.seconds
                    return
            elif isinstance(entry, Issue):
                self._come_to(number, entry)
            elif number >= self._head:
                self._waits[rank] = number
                return

    def _come_to(self, number: int, issue: Issue) -> None:
        if number == len(self._messages):
            self._messages.append(_Message(issue, tuple(range(self._head, number))))
        message = self._messages[number]
        message.came += 1
        if message.came == self._ranks:
            seconds = self._seconds_of(issue)
            beside = [(at, self._messages[at]) for at in message.beside]
            others = [(one.issue.size_bytes, one.left if at >= self._head else 0.0) for at, one in beside]
            message.left = self._sharing.beside_others(issue.size_bytes, seconds, others)


def _entries(tapes: Sequence[Tape]) -> Iterator[tuple[Compute | Issue | Wait | None, int]]:
    """Yields the entries of all steps with the number of their message, counted over all steps; None ends a step."""
    first = 0
    for tape in tapes:
        numbers: dict[int, int] = {}
        for entry in tape.entries:
            if isinstance(entry, Issue):
                numbers[entry.number] = first + len(numbers)
            at = -1 if isinstance(entry, Compute) else numbers.get(entry.number, -1)
            yield entry, at
        first += len(numbers)
        yield None, -1
