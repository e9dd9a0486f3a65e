"""Takes every step on tape: it is a clock of the recorder, and so is told of every event of a step."""

import time
from collections import deque
from typing import Any

from scalewise.records import events as ev
from scalewise.records.rehearsal import TapeRow
from scalewise.records.rows import ClockName
from scalewise.watch.clocks import Clock, EventClock
from scalewise.watch.recorder import Recorder

_NAMES = {
    ev.FORWARD: "forward",
    ev.BACKWARD: "backward",
    ev.BACKWARD_END: "own",
    ev.GRAD_END: "own",
    ev.OPTIMIZER: "optimizer",
    ev.DATA: "data",
    ev.DATA_END: "own",
    ev.PAUSE: "own",
}
MOST_STEPS = 400  # on tape: more tell nothing new


class TapeRecorder:
    """One per process; also the clock of the recorder, with the device's own clock inside where there is one."""

    name: ClockName = "host"  # of the moments on tape
    marks_all = True

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._inner: Clock | None = None
        self._step: _Step | None = None
        self._waiting: deque[_Step] = deque()
        self._left = MOST_STEPS

    def install(self) -> None:
        """Takes the place of the recorder's clock, now and when it chooses one."""
        use_clock = self._recorder.use_clock

        def use(clock: Clock) -> None:
            self._inner, self.name = clock, clock.name

        use_clock(self)
        self._recorder.use_clock = use  # type: ignore[method-assign]

    # ---- what collectives and buckets tell

    def issue(self, kind: str, size_bytes: int, ranks: int) -> int:
        """A message is ready; gives its number in this step, -1 outside any step."""
        step = self._step
        if step is None:
            return -1
        step.messages.append((kind, size_bytes, ranks))
        number = len(step.messages) - 1
        step.marks.append(("issue", number, self._moment()))
        return number

    def wait(self, number: int) -> None:
        """The rank cannot go on without it."""
        if self._step is not None and number >= 0:
            self._step.marks.append(("wait", number, self._moment()))

    # ---- the clock

    def begin(self, step: int, marked: bool) -> None:
        """A step opens."""
        if self._inner is not None:
            self._inner.begin(step, True)
        self._step = _Step(step, self.name, self._moment()) if self._left > 0 else None

    def mark(self, code: int) -> None:
        """An event inside the step."""
        if self._inner is not None:
            self._inner.mark(code)
        name = _NAMES.get(code)
        if self._step is not None and name is not None:
            self._step.marks.append((name, -1, self._moment()))

    def end(self) -> None:
        """The optimizer's step is over."""
        if self._step is not None:
            self._step.marks.append(("end", -1, self._moment()))
        if self._inner is not None:
            self._inner.end()

    def close(self) -> None:
        """Writes the steps whose moments are known; the newest ones of a device may not be."""
        if self._inner is not None:
            self._inner.close()
        if self._step is not None:
            self._waiting.append(self._step)
            self._step = None
            self._left -= 1
        while len(self._waiting) > (2 if self._on_device else 0):
            self._write(self._waiting.popleft())

    def rest(self) -> None:
        """Never: every step is on tape."""

    def settle(self) -> None:
        """As the device's clock does."""
        if self._inner is not None:
            self._inner.settle()

    def drain(self) -> None:
        """Writes what is left."""
        self.close()
        if self._inner is not None:
            self._inner.drain()
        while self._waiting:
            self._write(self._waiting.popleft())

    @property
    def _on_device(self) -> bool:
        return isinstance(self._inner, EventClock)

    def _moment(self) -> Any:
        if not self._on_device:
            return time.perf_counter_ns()
        import torch

        event: Any = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _write(self, step: "_Step") -> None:
        if not any(what == "end" for what, _, _ in step.marks):
            return  # cut off: no step
        if isinstance(step.begin, int):
            marks = tuple((what, number, at - step.begin) for what, number, at in step.marks)
        else:
            step.marks[-1][2].synchronize()
            marks = tuple((what, number, int(step.begin.elapsed_time(at) * 1e6)) for what, number, at in step.marks)
        self._recorder.journal.row(TapeRow(step.step, marks, tuple(step.messages), step.clock))


class _Step:
    """A step being taken."""

    def __init__(self, step: int, clock: str, begin: Any) -> None:
        self.step = step
        self.clock = clock
        self.begin = begin
        self.marks: list[tuple[str, int, Any]] = []
        self.messages: list[tuple[str, int, int]] = []
