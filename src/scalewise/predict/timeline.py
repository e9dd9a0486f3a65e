"""Simulates a rehearsed step with its messages: an event simulation of one rank among many like it.

There are two lanes, the rank's computing and its communication; a message starts when it is ready and the one before it
has ended, and the computing stops only where it waits for one. If a message is carried by the rank's own cores (gloo),
both lanes share them: `Sharing` says how much of a message's time is work for the cores, how much slower computing is
beside it, and how much time a message saves that begins while another is under way.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalewise.predict.tape import Compute, Issue, Tape

MessageSeconds = Callable[[Issue], float]


@dataclass(frozen=True)
class Sharing:
    """The way in which computing and communication share the cores."""

    # By how much computing beside a message takes longer, as a share of the message's time alone. 0: another engine
    # carries it; 1: its rank's cores carry it; above 1: both also get into each other's way (memory, caches, threads).
    work: float = 0.0
    # Added to a message that begins while another is under way, as gloo carries two at once: less than 0 where one
    # fills the other's gaps, more where their threads wait for each other's cores. That hardly depends on their sizes.
    beside_seconds: float = 0.0
    beside_bytes: float = 0.0  # where the larger of both has fewer, nothing is added: so small ones were not tried

    def beside_others(self, size_bytes: float, seconds: float, others: Sequence[tuple[float, float]]) -> float:
        """The time of a message that some rank came to beside others: their bytes, and the seconds now left of each.

        It saves no more than what is left of them, so that a slower link is slower.
        """
        if not others or seconds <= 0 or max(size_bytes, *(size for size, _ in others)) < self.beside_bytes:
            return seconds
        left = sum(of_other for _, of_other in others)
        return seconds + max(self.beside_seconds, -MOST_SPARED * seconds, -left)


APART = Sharing()
MOST_SPARED = 0.5  # share of a message


@dataclass(frozen=True)
class Timeline:
    """The predicted course of a step; figures are means if the tape has several steps."""

    step_seconds: float
    compute_seconds: float  # alone, without messages beside it
    message_seconds: float  # all messages, without computing beside them
    exposed_seconds: float  # time in which computing stood still for a message
    slowed_seconds: float  # extra time of computing because of messages beside it

    @property
    def hidden_seconds(self) -> float:
        """The time of messages that is hidden behind computing."""
        return max(0.0, self.message_seconds - self.exposed_seconds - self.slowed_seconds)


def simulate(tape: Tape, message_seconds: MessageSeconds, sharing: Sharing = APART) -> Timeline:
    """Simulates the step once."""
    return _Lanes(message_seconds, sharing).run(tape)


class _Lanes:
    """The state of the two lanes during the simulation of one step."""

    def __init__(self, message_seconds: MessageSeconds, sharing: Sharing) -> None:
        self._seconds_of = message_seconds
        self._sharing = sharing
        self._now = 0.0
        self._queue: deque[tuple[Issue, float]] = deque()  # under way or waiting, each with its remaining time
        self._done: set[int] = set()
        self._exposed = self._slowed = self._whole = 0.0

    def run(self, tape: Tape) -> Timeline:
        """Simulates every entry in order; messages still under way at the end continue into the next step."""
        for entry in tape.entries:
            if isinstance(entry, Compute):
                self._compute(entry)
            elif isinstance(entry, Issue):
                others = [(one.size_bytes, left) for one, left in self._queue]
                seconds = self._sharing.beside_others(entry.size_bytes, self._seconds_of(entry), others)
                self._whole += seconds
                self._queue.append((entry, seconds))
            else:
                self._wait(entry.number)
        return Timeline(
            self._now / tape.steps,
            tape.compute_seconds,
            self._whole / tape.steps,
            self._exposed / tape.steps,
            self._slowed / tape.steps,
        )

    def _compute(self, entry: Compute) -> None:
        left = entry.seconds
        while left > 0:
            if not self._queue:
                self._now += left
                break
            compute_rate, message_rate = self._rates()
            until_message = self._queue[0][1] / message_rate
            passed = min(left / compute_rate, until_message)
            self._slowed += passed * (1 - compute_rate)
            left = 0.0 if passed < until_message else left - passed * compute_rate
            self._carry(passed, message_rate)

    def _wait(self, number: int) -> None:
        while number not in self._done and self._queue:
            passed = self._queue[0][1]
            self._exposed += passed
            self._carry(passed, 1.0)

    def _rates(self) -> tuple[float, float]:
        """The rates of computing and of the message under way beside each other, relative to each alone.

        A message that keeps the cores busy for a share w of its time, and a thread that computes all of it, share them
        fairly: together they take as long as their work does.
        """
        rate = 1 / (1 + self._sharing.work)
        return rate, rate

    def _carry(self, passed: float, rate: float) -> None:
        self._now += passed
        issue, left = self._queue[0]
        left -= passed * rate
        if left > 1e-12:
            self._queue[0] = (issue, left)
            return
        self._queue.popleft()
        self._done.add(issue.number)
