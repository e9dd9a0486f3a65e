"""How a step is timed: by the host alone, by events in the device's own stream, or by waiting for several devices."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from scalewise.records.pulse import DATA, OWN_CODE
from scalewise.records.rows import ClockName
from scalewise.watch.journal import Journal
from scalewise.watch.step_line import StepLine

if TYPE_CHECKING:
    import torch

# Rows of this many steps may wait for the device before the oldest is waited for.
MOST_WAITING = 256


class Clock(Protocol):
    """Told of the boundaries of a step and of its phases; writes the step's line when its duration is known."""

    name: ClockName

    def begin(self, sampled: bool) -> None:
        """A step opens; a sampled one has its phases resolved."""

    def mark(self, phase: int) -> None:
        """Another phase begins inside the step (or, before the first, nothing has begun)."""

    def end(self) -> None:
        """The step ends (again, when a further optimizer follows)."""

    def write(self, line: StepLine, host_ns: int, spent: Sequence[int], journal: Journal) -> None:
        """Writes the line now or when the device has caught up."""

    def drain(self) -> None:
        """Writes everything that still waits."""


class HostClock:
    """CPU training: when the call returns, the work is done."""

    name: ClockName = "host"

    def begin(self, sampled: bool) -> None:
        """Nothing to do."""

    def mark(self, phase: int) -> None:
        """Nothing to do."""

    def end(self) -> None:
        """Nothing to do."""

    def write(self, line: StepLine, host_ns: int, spent: Sequence[int], journal: Journal) -> None:
        """The host's own durations are the step's."""
        journal.line(line.text(host_ns, spent, spent[DATA], line.between_ns))

    def drain(self) -> None:
        """Nothing waits."""


HOST_CLOCK = HostClock()


class SynchronisedClock(HostClock):
    """Several devices in one process: no single stream sees the whole step, so every boundary waits for all of them."""

    name: ClockName = "synchronised"

    def __init__(self, devices: Sequence["torch.device"]) -> None:
        import torch

        self._devices = tuple(devices)
        self._synchronize = torch.cuda.synchronize

    def begin(self, sampled: bool) -> None:
        """Waits for all devices."""
        for device in self._devices:
            self._synchronize(device)

    def mark(self, phase: int) -> None:
        """Waits for all devices."""
        self.begin(True)

    def end(self) -> None:
        """Waits for all devices."""
        self.begin(True)


class EventClock:
    """One GPU: events in its stream time the step on the device itself, without ever making the host wait.

    In steady state this is the duration a synchronised host clock would read, less the disturbance: the stream cannot
    pass the first event before the step's work is queued, nor the second before all of it is done.
    """

    name: ClockName = "cuda_events"

    def __init__(self) -> None:
        import torch

        self._event: Any = torch.cuda.Event
        self._capturing = torch.cuda.is_current_stream_capturing
        self._free: list[Any] = []
        self._marks: list[tuple[int, Any]] = []
        self._sampled = False
        self._last_end: Any = None
        self._waiting: deque[_Waiting] = deque()

    def begin(self, sampled: bool) -> None:
        """The first event of the step."""
        self._sampled = sampled
        self._marks = [(OWN_CODE, self._record())]

    def mark(self, phase: int) -> None:
        """An event for each phase, in sampled steps only: each costs the host a microsecond or two."""
        if self._sampled and self._marks:
            self._marks.append((phase, self._record()))

    def end(self) -> None:
        """The last event of the step."""
        if self._marks:
            self._marks.append((OWN_CODE, self._record()))

    def write(self, line: StepLine, host_ns: int, spent: Sequence[int], journal: Journal) -> None:
        """Queues the line behind its last event and writes those whose events have passed."""
        self._waiting.append(_Waiting(line, self._marks, self._sampled, self._last_end, spent[DATA], journal))
        self._last_end = self._marks[-1][1]
        self._marks = []
        while self._waiting and (len(self._waiting) > MOST_WAITING or self._waiting[0].done()):
            self._resolve(self._waiting.popleft())

    def drain(self) -> None:
        """Waits for the device and writes the rest."""
        while self._waiting:
            self._resolve(self._waiting.popleft())

    def _record(self) -> Any:
        if self._capturing():
            raise RuntimeError("a CUDA graph is being captured: its steps are replayed out of the watcher's sight")
        event = self._free.pop() if self._free else self._event(enable_timing=True)
        event.record()
        return event

    def _resolve(self, waiting: "_Waiting") -> None:
        waiting.write()
        if waiting.previous_end is not None:
            self._free.append(waiting.previous_end)
        self._free.extend(event for _, event in waiting.marks[:-1])


class _Waiting:
    """A step whose events may not have passed yet."""

    __slots__ = ("data_inside_ns", "journal", "line", "marks", "previous_end", "sampled")

    def __init__(
        self,
        line: StepLine,
        marks: list[tuple[int, Any]],
        sampled: bool,
        previous_end: Any,
        data_inside_ns: int,
        journal: Journal,
    ) -> None:
        self.line = line
        self.marks = marks
        self.sampled = sampled
        self.previous_end = previous_end
        self.data_inside_ns = data_inside_ns
        self.journal = journal

    def done(self) -> bool:
        return bool(self.marks[-1][1].query())

    def write(self) -> None:
        first, last = self.marks[0][1], self.marks[-1][1]
        last.synchronize()
        spent = None
        if self.sampled:
            spent = [0] * (DATA + 1)
            for (phase, begin), (_, end) in zip(self.marks, self.marks[1:], strict=False):
                spent[phase] += _elapsed_ns(begin, end)
        step_ns = sum(spent) if spent is not None else _elapsed_ns(first, last)
        between_ns = None
        if self.previous_end is not None:
            between_ns = max(0, _elapsed_ns(self.previous_end, first) - self.line.data_outside_ns)
        inside_ns = spent[DATA] if spent is not None else self.data_inside_ns
        self.line.read_device_losses()
        self.journal.line(self.line.text(step_ns, spent, inside_ns, between_ns))


def _elapsed_ns(begin: Any, end: Any) -> int:
    return int(begin.elapsed_time(end) * 1e6)
