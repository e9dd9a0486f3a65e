"""Reads a rank's events as spans of time: the phases of every step, its micro-batches, data and collectives."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scalewise.records.draft import BACKWARD, DATA, FORWARD, OPTIMIZER, OWN
from scalewise.records.steps import StepMachine

_NAMES = {OWN: "rest", FORWARD: "forward", BACKWARD: "backward", OPTIMIZER: "optimizer", DATA: "data"}


@dataclass(frozen=True)
class NamedSpan:
    """A named span of time, in ns of the rank's monotonic clock."""

    name: str
    begin_ns: int
    end_ns: int
    size_bytes: int = 0  # of a collective


@dataclass
class StepSpans:
    """One step; its phases follow one another without a gap from its beginning to its end."""

    step: int = -1
    phases: list[NamedSpan] = field(default_factory=list)
    micro_batches: list[NamedSpan] = field(default_factory=list)
    collectives: list[NamedSpan] = field(default_factory=list)  # called by the script or a wrapper in Python
    waiting: list[NamedSpan] = field(default_factory=list)  # spans of waiting for data, before the step

    @property
    def begin_ns(self) -> int:
        """The time at which the step itself begins."""
        return self.phases[0].begin_ns

    @property
    def end_ns(self) -> int:
        """The time at which the step itself ends."""
        return self.phases[-1].end_ns


def read_step_spans(path: Path) -> list[StepSpans]:
    """All steps of a rank's file; lines that cannot be read are skipped, as in `rank_file`."""
    machine = _SpanMachine()
    try:
        lines = path.read_bytes().decode("utf-8", errors="replace").split("\n")[:-1]
    except OSError:
        return []
    for line in lines:
        try:
            data = json.loads(line)
            if isinstance(data, dict) and data.get("kind") == "events":
                machine.feed(data["events"])
        except (ValueError, TypeError, KeyError, RecursionError):
            machine.gap()
    machine.steps()
    return [one for one in machine.found if one.phases]


class _SpanMachine(StepMachine):
    """A step machine that also records the spans of time that it charges to each phase."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[StepSpans] = []
        self._now = StepSpans()
        self._next = StepSpans()  # what comes before the next step opens
        self._micro_begin_ns = 0

    def gap(self) -> None:
        super().gap()
        self._now, self._next, self._micro_begin_ns = StepSpans(), StepSpans(), 0

    def _open_step(self, time_ns: int) -> None:
        super()._open_step(time_ns)
        self._now, self._next, self._micro_begin_ns = self._next, StepSpans(), 0

    def _switch(self, phase: int, time_ns: int) -> None:
        if self._open and time_ns > self._mark_ns:
            last = self._now.phases[-1] if self._now.phases else None
            name, begin_ns = _NAMES[self._phase], self._mark_ns
            if last is not None and last.name == name and last.end_ns == begin_ns:
                begin_ns = self._now.phases.pop().begin_ns
            self._now.phases.append(NamedSpan(name, begin_ns, time_ns))
        super()._switch(phase, time_ns)

    def _forward(self, time_ns: int, values: Sequence[Any]) -> None:
        super()._forward(time_ns, values)
        self._micro_begin_ns = self._micro_begin_ns or time_ns

    def _backward_end(self, time_ns: int, values: Sequence[Any]) -> None:
        super()._backward_end(time_ns, values)
        if self._micro_begin_ns:
            number = len(self._now.micro_batches) + 1
            self._now.micro_batches.append(NamedSpan(f"micro-batch {number}", self._micro_begin_ns, time_ns))
        self._micro_begin_ns = 0

    def _data_done(self, time_ns: int, values: Sequence[Any]) -> None:
        if not self._open and self._data_ns:
            self._next.waiting.append(NamedSpan("data", self._data_ns, time_ns))
        super()._data_done(time_ns, values)

    def _collective_end(self, time_ns: int, values: Sequence[Any]) -> None:
        super()._collective_end(time_ns, values)
        spans = self._now if self._open else self._next
        spans.collectives.append(NamedSpan(str(values[0]), self._collective_began_ns, time_ns, values[1]))

    def _reopen(self) -> None:
        """Reopens the step and adds to it the waiting since it seemed to have ended."""
        end_ns = self._end_ns
        super()._reopen()
        if self._mark_ns > end_ns:
            self._now.phases.append(NamedSpan(_NAMES[DATA], end_ns, self._mark_ns))
        self._now.collectives += self._next.collectives
        self._next = StepSpans()

    def _give(self) -> None:
        self._now.step = self._number
        # The machine may have learnt that the step began later than it seemed.
        self._now.phases = [
            NamedSpan(span.name, max(span.begin_ns, self._begin_ns), span.end_ns)
            for span in self._now.phases
            if span.end_ns > self._begin_ns
        ]
        self.found.append(self._now)
        self._now = StepSpans()
        super()._give()
