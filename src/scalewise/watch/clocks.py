"""How the steps of a GPU are timed: by events in its own stream, or by waiting for several devices at once."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from scalewise.records import events as ev
from scalewise.records.draft import BACKWARD, DATA, FORWARD, OPTIMIZER, OWN, PHASES
from scalewise.records.rows import ClockName

if TYPE_CHECKING:
    import torch

# So many steps may wait for the device before the oldest is waited for.
MOST_WAITING = 256

_PHASE_AFTER = {
    ev.FORWARD: FORWARD,
    ev.BACKWARD: BACKWARD,
    ev.BACKWARD_END: OWN,
    ev.GRAD_END: OWN,
    ev.PAUSE: OWN,
    ev.OPTIMIZER: OPTIMIZER,
    ev.OPTIMIZER_END: OWN,
    ev.DATA: DATA,
    ev.DATA_END: OWN,
}

Note = Callable[..., None]


class Clock(Protocol):
    """Told of the boundaries of a step, before the host's own stamp is taken."""

    name: ClockName

    def begin(self, step: int, sampled: bool) -> None:
        """A step opens; a sampled one has its phases resolved."""

    def mark(self, code: int) -> None:
        """An event of the loop is about to be stamped."""

    def close(self) -> None:
        """The last step is over for good: the next one is about to open."""

    def drain(self) -> None:
        """Notes all that is still unresolved."""


class SynchronisedClock:
    """Several devices in one process: no single stream sees the whole step, so every stamp waits for all of them."""

    name: ClockName = "synchronised"

    def __init__(self, devices: Sequence["torch.device"]) -> None:
        import torch

        self._devices = tuple(devices)
        self._synchronize = torch.cuda.synchronize

    def begin(self, step: int, sampled: bool) -> None:
        """Nothing to do: the first stamp waits."""

    def mark(self, code: int) -> None:
        """Waits for all devices."""
        for device in self._devices:
            self._synchronize(device)

    def close(self) -> None:
        """Nothing to do."""

    def drain(self) -> None:
        """Nothing waits."""


class EventClock:
    """One GPU: events in its stream time the step on the device itself, without ever making the host wait.

    In steady state this is the duration a synchronised host clock would read, less the disturbance: the stream cannot
    pass the first event before the step's work is queued, nor the last one before all of it is done.
    """

    name: ClockName = "cuda_events"

    def __init__(self, note: Note) -> None:
        import torch

        self._note = note
        self._event: Any = torch.cuda.Event
        self._capturing = torch.cuda.is_current_stream_capturing
        self._free: list[Any] = []
        self._current: _DeviceStep | None = None
        self._last_end: Any = None
        self._waiting: deque[_DeviceStep] = deque()

    def begin(self, step: int, sampled: bool) -> None:
        """The step's first stamp will record its first event."""
        self._current = _DeviceStep(step, sampled, self._last_end)

    def mark(self, code: int) -> None:
        """Events at the ends of a step; at every phase in sampled steps only, for each costs some microseconds."""
        current = self._current
        if current is None or code not in _PHASE_AFTER:
            return
        if not current.marks or current.sampled or code == ev.OPTIMIZER_END:
            current.marks.append((_PHASE_AFTER[code], self._record()))

    def lend(self, loss: Any) -> None:
        """A loss on the device, to be fetched when the step is known to be over."""
        if self._current is not None:
            self._current.losses.append(loss)

    def close(self) -> None:
        """Queues the step behind its last event and notes those whose events have passed."""
        if self._current is not None and len(self._current.marks) > 1:
            self._waiting.append(self._current)
            self._last_end = self._current.marks[-1][1]
        self._current = None
        while self._waiting and (len(self._waiting) > MOST_WAITING or self._waiting[0].marks[-1][1].query()):
            self._resolve(self._waiting.popleft())

    def drain(self) -> None:
        """Waits for the device and notes the rest."""
        self.close()
        while self._waiting:
            self._resolve(self._waiting.popleft())

    def _record(self) -> Any:
        if self._capturing():
            raise RuntimeError("a CUDA graph is being captured: its steps are replayed out of the watcher's sight")
        event = self._free.pop() if self._free else self._event(enable_timing=True)
        event.record()
        return event

    def _resolve(self, step: "_DeviceStep") -> None:
        self._note(ev.DEVICE, *step.times())
        if step.previous_end is not None:
            self._free.append(step.previous_end)
        self._free.extend(event for _, event in step.marks[:-1])


class _DeviceStep:
    """A step whose events may not have passed yet."""

    __slots__ = ("losses", "marks", "previous_end", "sampled", "step")

    def __init__(self, step: int, sampled: bool, previous_end: Any) -> None:
        self.step = step
        self.sampled = sampled
        self.previous_end = previous_end
        self.marks: list[tuple[int, Any]] = []
        self.losses: list[Callable[[], float]] = []

    def times(self) -> tuple[int, int, int | None, list[int] | None, float | None]:
        """Step number, duration, time since the previous step, phases where sampled, loss where lent."""
        first, last = self.marks[0][1], self.marks[-1][1]
        last.synchronize()
        phases, step_ns = None, _elapsed_ns(first, last)
        if self.sampled:
            phases = [0] * PHASES
            for (phase, begin), (_, end) in zip(self.marks, self.marks[1:], strict=False):
                phases[phase] += _elapsed_ns(begin, end)
            step_ns = sum(phases)
        between_ns = None if self.previous_end is None else max(0, _elapsed_ns(self.previous_end, first))
        loss = sum(fetch() for fetch in self.losses) if self.losses else None
        return self.step, step_ns, between_ns, phases, loss


def _elapsed_ns(begin: Any, end: Any) -> int:
    return int(begin.elapsed_time(end) * 1e6)
