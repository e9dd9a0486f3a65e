"""Reads from a rank's events what it exchanged with other ranks, and at which moment of a step.

`records.steps` says how long a step took; this says whether anything was exchanged between ranks meanwhile.
`analysis.relation` decides from it how the ranks relate to each other.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from scalewise.records import events as ev
from scalewise.records.collectives import collective_kind
from scalewise.records.steps import split_events

Moment = Literal["forward", "backward", "update", "between"]


@dataclass(frozen=True)
class StepTraffic:
    """The bytes that one rank exchanged around one optimizer step; sizes are of the collectives that it called."""

    forward: int = 0  # from the first module call to the backward pass
    backward: int = 0  # inside a backward pass
    update: int = 0  # after backward, until the optimizer has stepped
    between: int = 0  # after the step, until the next one begins or the script ends
    reduced: int = 0  # averaged by DDP's reducer
    sent: int = 0  # in messages to one other rank, between backward and the optimizer's step
    rows: int | None = None  # of all inputs; None if the numbers of module calls and backward passes differ
    parted: int = 0  # the bytes in `forward` of which each rank got a part of its own
    messages: frozenset[Moment] = frozenset()  # moments at which something was sent to or received from one other rank


@dataclass(frozen=True)
class Traffic:
    """The exchanges in all steps of a rank; equal steps are counted together."""

    steps: dict[StepTraffic, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of steps that were seen."""
        return sum(self.steps.values())


class TrafficReader:
    """Reads a rank's events, fed in order, as the traffic of its steps."""

    def __init__(self) -> None:
        self._steps: Counter[StepTraffic] = Counter()
        self._moment: Moment = "between"
        self._bytes: Counter[str] = Counter()
        self._messages: set[Moment] = set()
        self._inputs: list[int | None] = []  # rows of each module call
        self._passes = 0  # backward passes that have ended
        self._begun = False  # the first step has begun: what was sent before only made the ranks ready
        self._stepped = False  # an optimizer has ended the current step

    def feed(self, numbers: Sequence[Any]) -> None:
        """Takes one line's events; raises `EventError` on a list that cannot be read."""
        for code, _, values in split_events(numbers):
            if code == ev.FORWARD:
                self._open("forward")
                self._inputs.append(values[0])
            elif code == ev.BACKWARD:
                self._open("backward")
            elif code in (ev.BACKWARD_END, ev.GRAD_END, ev.OPTIMIZER):
                self._moment = "update"
                self._passes += code == ev.BACKWARD_END
            elif code == ev.OPTIMIZER_END:
                self._moment, self._stepped = "between", True
            elif code == ev.COLLECTIVE_END:
                self._exchange(*values)
            elif code == ev.REDUCER and values[0] == "all_reduce":
                self._bytes["reduced"] += values[2]

    def traffic(self) -> Traffic:
        """The traffic of all steps so far."""
        steps = Counter(self._steps)
        if self._stepped:
            steps[self._step()] += 1
        return Traffic(dict(steps))

    def _open(self, moment: Moment) -> None:
        """Notes a module call or the start of backward; the first one after an optimizer's step opens a new step."""
        if self._stepped:
            self._steps[self._step()] += 1
        if self._stepped or not self._begun:
            self._bytes.clear()
            self._messages.clear()
            self._inputs.clear()
            self._passes, self._stepped, self._begun = 0, False, True
        self._moment = moment

    def _exchange(self, kind: str, size_bytes: int) -> None:
        does = collective_kind(kind)
        if does.message:
            self._messages.add(self._moment)
            self._bytes["sent"] += size_bytes if self._moment == "update" else 0
        else:
            self._bytes[self._moment] += size_bytes
            if does.parts and self._moment == "forward":
                self._bytes["parted"] += size_bytes

    def _step(self) -> StepTraffic:
        bytes_at = self._bytes
        rows = [one for one in self._inputs if one is not None]
        return StepTraffic(
            forward=bytes_at["forward"],
            backward=bytes_at["backward"],
            update=bytes_at["update"],
            between=bytes_at["between"],
            reduced=bytes_at["reduced"],
            sent=bytes_at["sent"],
            parted=bytes_at["parted"],
            rows=sum(rows) if len(rows) == self._passes > 0 else None,
            messages=frozenset(self._messages),
        )
