"""Times the steps of a GPU: by events in its own stream, or by waiting for several devices at once."""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from scalewise.records import events as ev
from scalewise.records.draft import BACKWARD, DATA, FORWARD, OPTIMIZER, OWN, PHASES
from scalewise.records.rows import ClockName

if TYPE_CHECKING:
    import torch

# The events of this many steps are read together, which is cheaper than after each step.
RESOLVE_EVERY = 16
# At most this many steps wait for the device; then the host waits for the oldest.
MOST_WAITING = 256

_PHASE_AFTER = {
    ev.FORWARD: FORWARD,
    ev.BACKWARD: BACKWARD,
    ev.BACKWARD_END: OWN,
    ev.GRAD_END: OWN,
    ev.PAUSE: OWN,
    ev.OPTIMIZER: OPTIMIZER,
    ev.DATA: DATA,
    ev.DATA_END: OWN,
}

Note = Callable[..., None]


class Clock(Protocol):
    """A device clock, which times the steps of a GPU.

    It is called at the ends of every step, and at the events inside marked ones, before the host takes its stamp.
    """

    name: ClockName
    marks_all: bool  # whether `mark` wants the events of every step

    def begin(self, step: int, marked: bool) -> None:
        """Opens a step; a marked one is resolved into phases."""

    def mark(self, code: int) -> None:
        """Marks an event inside the step that is about to be stamped."""

    def begin_later(self, forward: int) -> None:
        """Moves the marked step's beginning to this one of its module calls, counted from 0."""

    def end(self) -> None:
        """Ends the step (again, if a further optimizer follows)."""

    def close(self) -> None:
        """Closes the last step for good: the next one is about to open."""

    def rest(self) -> None:
        """Prepares for steps that are not watched."""

    def settle(self) -> None:
        """Waits between two steps until the device has done all it was given."""

    def drain(self) -> None:
        """Notes all that is still unresolved."""


class SynchronisedClock:
    """A clock for several devices in one process: no stream sees the whole step, so stamps wait for all of them."""

    name: ClockName = "synchronised"
    marks_all = True

    def __init__(self, devices: Sequence["torch.device"]) -> None:
        import torch

        self._devices = tuple(devices)
        self._synchronize = torch.cuda.synchronize

    def begin(self, step: int, marked: bool) -> None:
        """Waits for all devices."""
        self.end()

    def mark(self, code: int) -> None:
        """Waits for all devices."""
        self.end()

    def begin_later(self, forward: int) -> None:
        """Does nothing: the host's stamps are the times."""

    def end(self) -> None:
        """Waits for all devices."""
        for device in self._devices:
            self._synchronize(device)

    def close(self) -> None:
        """Does nothing."""

    def rest(self) -> None:
        """Does nothing."""

    def settle(self) -> None:
        """Waits for all devices."""
        self.end()

    def drain(self) -> None:
        """Does nothing: no step is ever unresolved."""


class EventClock:
    """A clock for one GPU: events in its stream time the step on the device itself, without ever making the host wait.

    In steady state this is the duration a synchronised host clock would read, less the disturbance: the stream cannot
    pass the first event before the step's work is queued, nor the last one before all of it is done.
    """

    name: ClockName = "cuda_events"
    marks_all = False

    def __init__(self, note: Note) -> None:
        import torch

        self._note = note
        self._new_event: Any = torch.cuda.Event
        self._capturing = torch.cuda.is_current_stream_capturing
        self._synchronize = torch.cuda.synchronize
        self._free: list[Any] = []
        self._current: _DeviceStep | None = None
        self._last_end: Any = None
        self._waiting: deque[_DeviceStep] = deque()
        self._stream: Callable[[], Any] = _stream_reader()

    def begin(self, step: int, marked: bool) -> None:
        """Records the first event of the step."""
        self._current = None
        if self._capturing():
            raise RuntimeError("a CUDA graph is being captured: its steps are replayed out of the watcher's sight")
        self._current = _DeviceStep(step, marked, self._last_end, self._record())

    def mark(self, code: int) -> None:
        """Records an event for each phase, in marked steps only: each costs the host some microseconds.

        What comes after the end of the step is not part of it, unless a further optimizer opens the step again.
        """
        current = self._current
        if current is None or code not in _PHASE_AFTER:
            return
        if current.last is not None:
            if code != ev.OPTIMIZER:
                return
            current.marks.append((OWN, current.last))
            current.last = None
        current.marks.append((_PHASE_AFTER[code], self._record()))

    def begin_later(self, forward: int) -> None:
        """Makes the mark of that module call the first event of the step, and frees the events before it."""
        current = self._current
        if current is not None:
            calls = [index for index, (phase, _) in enumerate(current.marks) if phase == FORWARD]
            if forward < len(calls):
                at = calls[forward]
                self._free += [current.first, *(event for _, event in current.marks[:at])]
                current.first, current.opens_in = current.marks[at][1], FORWARD
                del current.marks[: at + 1]

    def end(self) -> None:
        """Records the last event of the step."""
        current = self._current
        if current is not None:
            if current.last is not None:
                current.marks.append((OWN, current.last))
            current.last = self._record()

    def lend(self, loss: Callable[[], float]) -> None:
        """Keeps a loss that lies on the device, to be fetched when the step is known to be over."""
        if self._current is not None:
            self._current.losses.append(loss)

    def close(self) -> None:
        """Queues the step behind its last event; every 16 steps, and after marked ones, notes steps that are over."""
        current = self._current
        self._current = None
        if current is not None and current.last is not None:
            self._waiting.append(current)
            self._last_end = current.last
            if current.step % RESOLVE_EVERY == 0 or current.marked:
                self._resolve_passed()

    def rest(self) -> None:
        """Forgets the last step's end: the time until the next watched step is not measured."""
        self.close()
        self._last_end = None

    def settle(self) -> None:
        """Waits for the whole device, side streams included; not during a graph capture, which would fail by it."""
        if not self._capturing():
            self._synchronize()

    def drain(self) -> None:
        """Waits for the device and notes all remaining steps."""
        self.close()
        while self._waiting:
            self._resolve(self._waiting.popleft())

    def _resolve_passed(self) -> None:
        while self._waiting and (len(self._waiting) > MOST_WAITING or self._waiting[0].passed()):
            self._resolve(self._waiting.popleft())

    def _record(self) -> Any:
        event = self._free.pop() if self._free else self._new_event(enable_timing=True)
        event.record(self._stream())
        return event

    def _resolve(self, step: "_DeviceStep") -> None:
        self._note(ev.DEVICE, *step.times())
        self._free += [step.first, *(event for _, event in step.marks)]
        if step.previous_end is not None:
            self._free.append(step.previous_end)


class _DeviceStep:
    """A step whose events may not have passed yet."""

    __slots__ = ("first", "last", "losses", "marked", "marks", "opens_in", "previous_end", "step")

    def __init__(self, step: int, marked: bool, previous_end: Any, first: Any) -> None:
        self.step = step
        self.marked = marked
        self.previous_end = previous_end
        self.first = first
        self.opens_in = OWN  # the phase from the first event to the first mark
        self.last: Any = None
        self.marks: list[tuple[int, Any]] = []
        self.losses: list[Callable[[], float]] = []

    def passed(self) -> bool:
        """Returns whether the device has done all of the step."""
        return bool(self.last.query())

    def times(self) -> tuple[int, int, int | None, list[int] | None, float | None]:
        """Returns step number, duration, time since the previous step, phases if marked, and loss if there is one."""
        self.last.synchronize()
        phases, step_ns = None, _elapsed_ns(self.first, self.last)
        if self.marked:
            phases = self._phases()
            step_ns = sum(phases)
        between_ns = None if self.previous_end is None else max(0, _elapsed_ns(self.previous_end, self.first))
        loss = sum(fetch() for fetch in self.losses) if self.losses else None
        return self.step, step_ns, between_ns, phases, loss

    def _phases(self) -> list[int]:
        phases = [0] * PHASES
        marks = [(self.opens_in, self.first), *self.marks, (OWN, self.last)]
        for (phase, begin), (_, end) in pairwise(marks):
            phases[phase] += _elapsed_ns(begin, end)
        return phases


def _stream_reader() -> Callable[[], Any]:
    """A quicker `torch.cuda.current_stream`, which makes a new object at each call: a microsecond or two, twice a step.

    The function that gives the stream's address is private to torch; if it is missing, the public one is used.
    """
    import torch

    address_of = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if address_of is None:
        return torch.cuda.current_stream
    known: dict[tuple[int, int], Any] = {}

    def current() -> Any:
        device = torch.cuda.current_device()
        key = (device, address_of(device))
        stream = known.get(key)
        if stream is None:
            stream = known[key] = torch.cuda.current_stream()
        return stream

    return current


def _elapsed_ns(begin: Any, end: Any) -> int:
    return int(begin.elapsed_time(end) * 1e6)
