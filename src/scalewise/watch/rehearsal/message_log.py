"""Puts every step on tape: it is a clock of the recorder, and so is called at every event of a step."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from scalewise.records import events as ev
from scalewise.records.rehearsal import TapeRow
from scalewise.records.rows import ClockName
from scalewise.watch.recorder import Recorder
from scalewise.watch.step_clocks import Clock, EventClock

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
MOST_STEPS = 400  # on tape: more show nothing new
Ticket = tuple[int, int]  # step, number of the message in it
NO_TICKET: Ticket = (-1, -1)
Message = tuple[str, int, int]  # kind, bytes, ranks


class TapeRecorder:
    """The tape of one process; also the recorder's clock, with the device's own clock inside if there is one."""

    name: ClockName = "host"  # of the moments on tape
    marks_all = True

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._inner: Clock | None = None
        self._step: _Step | None = None
        self._written_later: deque[_Step] = deque()
        self._left = MOST_STEPS
        self._left_out_ns = 0
        self._outside: tuple[Message, ...] = ()  # messages since the last step
        self._beside: list[Ticket] | None = None
        self._unwaited: list[Ticket] = []  # that the end of this backward pass waits for
        self._reduced: Any = None  # moment of that end
        self.computing_stream: int | None = None
        self.record_event: Any = lambda event: event.record()

    def install(self) -> None:
        """Takes the place of the recorder's clock, now and when it chooses one."""
        use_clock = self._recorder.use_clock

        def use(clock: Clock) -> None:
            self._inner, self.name = clock, clock.name

        use_clock(self)
        self._recorder.use_clock = use  # type: ignore[method-assign]

    # ---- messages

    @property
    def step_number(self) -> int:
        """The number of the open step, -1 outside any."""
        return self._step.step if self._step is not None else -1

    def issue(self, kind: str, size_bytes: int, ranks: int, nodes: int = 0) -> Ticket:
        """Puts a message of a group of that many ranks and nodes on tape when it is ready; returns its ticket."""
        step = self._step
        if step is None:
            return NO_TICKET
        step.messages.append((kind, size_bytes, ranks))
        step.nodes.append(nodes)
        number = len(step.messages) - 1
        step.marks.append(("issue", number, self._moment()))
        return step.step, number

    def wait(self, ticket: Ticket) -> None:
        """Puts on tape that the rank waits for a message; one of an earlier step, or waited for before, has arrived."""
        if self._beside is not None:
            self._beside.append(ticket)
        elif self._step is not None and ticket[0] == self._step.step and ticket[1] not in self._step.arrived:
            self._step.arrived.add(ticket[1])
            self._step.marks.append(("wait", ticket[1], self._moment()))

    @contextmanager
    def beside(self) -> Iterator[list[Ticket]]:
        """A context in which waits hold up only a thread or a stream of their own; gives the tickets waited for."""
        outer, self._beside = self._beside, []
        try:
            yield self._beside
        finally:
            self._beside = outer

    def wait_after_backward(self, ticket: Ticket) -> None:
        """Notes a message asked for as a future: in a backward pass DDP's reducer waits for it at the end."""
        import torch

        if ticket == NO_TICKET:
            return
        try:
            # Before the reducer's own, which it queues after its last bucket; private to torch, FSDP uses it as well.
            torch.autograd.Variable._execution_engine.queue_callback(self._backward_is_over)
        except (RuntimeError, AttributeError):
            return  # no backward pass: whoever has the future will wait for it
        self._unwaited.append(ticket)

    def broke(self, error: Exception) -> None:
        """Notes that something of ours failed: the script goes on."""
        self._recorder.broke("rehearsal", error)

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """A context for the rehearsal's own work, which is left out; in a side stream it holds up nothing."""
        began = self._moment()
        try:
            yield
        finally:
            if not self._on_device:
                self._left_out_ns += self._moment() - began
            elif self._step is not None and self.side_stream() is None:
                self._step.left_out.append((began, self._moment()))

    def side_stream(self) -> int | None:
        """The current stream of the device if it is not the one that computes, else None."""
        if not self._on_device:
            return None
        import torch

        stream = int(torch.cuda.current_stream().cuda_stream)
        return None if stream == self.computing_stream else stream

    def _backward_is_over(self) -> None:
        if self._unwaited and self._reduced is None:
            self._reduced = self._moment()

    def _settle_backward(self, now: Any) -> None:
        """Places the waits: the reducer waits for each bucket in turn and copies it, so they are spread by bytes."""
        step, tickets, begin = self._step, self._unwaited, self._reduced
        self._unwaited, self._reduced = [], None
        if step is None or begin is None:
            return
        numbers = [number for of_step, number in tickets if of_step == step.step]
        whole_bytes = sum(step.messages[number][1] for number in numbers) or 1
        passed_bytes = 0
        for number in numbers:
            step.marks.append(("wait", number, _Between(begin, now, passed_bytes / whole_bytes)))
            passed_bytes += step.messages[number][1]

    # ---- the clock

    def begin(self, step: int, marked: bool) -> None:
        """Begins a step."""
        if self._inner is not None:
            self._inner.begin(step, True)
        if self._on_device:
            import torch

            self.computing_stream = int(torch.cuda.current_stream().cuda_stream)
        self._step = _Step(step, self.name, self._moment(), self._outside) if self._left > 0 else None

    def mark(self, code: int) -> None:
        """Notes an event inside the step."""
        if self._inner is not None:
            self._inner.mark(code)
        name = _NAMES.get(code)
        if self._step is not None and name is not None:
            now = self._moment()
            if self._unwaited:
                self._settle_backward(now)
            self._step.marks.append((name, -1, now))

    def begin_later(self, forward: int) -> None:
        """Moves the step's beginning to that call, unless messages were sent before it: those must stay on tape."""
        if self._inner is not None:
            self._inner.begin_later(forward)
        if self._step is not None:
            calls = [place for place, (what, _, _) in enumerate(self._step.marks) if what == "forward"]
            before = self._step.marks[: calls[forward]] if forward < len(calls) else []
            if before and all(number < 0 for _, number, _ in before):
                self._step.begin = self._step.marks[len(before)][2]
                del self._step.marks[: len(before)]

    def end(self) -> None:
        """Notes that the optimizer's step is over."""
        if self._step is not None:
            self._step.marks.append(("end", -1, self._moment()))
        if self._inner is not None:
            self._inner.end()

    def close(self) -> None:
        """Writes the steps whose moments are known; the newest ones of a device may not be."""
        if self._inner is not None:
            self._inner.close()
        step, self._step = self._step, None
        if step is not None:
            self._outside = step.cut()
            if step.marks:
                self._written_later.append(step)
                self._left -= 1
        while len(self._written_later) > (2 if self._on_device else 0):
            self._write(self._written_later.popleft())

    def rest(self) -> None:
        """Does nothing: every step is on tape."""

    def settle(self) -> None:
        """Waits as the device's clock does."""
        if self._inner is not None:
            self._inner.settle()

    def drain(self) -> None:
        """Writes what is left."""
        self.close()
        if self._inner is not None:
            self._inner.drain()
        while self._written_later:
            self._write(self._written_later.popleft())

    @property
    def _on_device(self) -> bool:
        return isinstance(self._inner, EventClock)

    def _moment(self) -> Any:
        if not self._on_device:
            return time.perf_counter_ns() - self._left_out_ns
        import torch

        event: Any = torch.cuda.Event(enable_timing=True)
        self.record_event(event)
        return event

    def _write(self, step: "_Step") -> None:
        if not isinstance(step.begin, int):
            step.marks[-1][2].synchronize()
        self._recorder.journal.row(
            TapeRow(
                step.step, tuple(step.timed_marks()), tuple(step.messages), step.clock, step.outside, tuple(step.nodes)
            )
        )


@dataclass(frozen=True)
class _Between:
    """A moment at a share of the way from one moment to another."""

    begin: Any
    end: Any
    share: float

    def since(self, origin: Any) -> int:
        begin_ns, end_ns = _since(origin, self.begin), _since(origin, self.end)
        return begin_ns + int((end_ns - begin_ns) * self.share)


@dataclass
class _Step:
    """A step that is being put on tape."""

    step: int
    clock: str
    begin: Any
    outside: tuple[Message, ...]
    marks: list[tuple[str, int, Any]] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)  # of each message
    arrived: set[int] = field(default_factory=set)  # messages that were waited for
    left_out: list[tuple[Any, Any]] = field(default_factory=list)  # from, to: moments of a device

    def cut(self) -> tuple[Message, ...]:
        """Ends the step at its last optimizer, or empties it if there is none; returns the messages after that."""
        ends = [place for place, (what, _, _) in enumerate(self.marks) if what == "end"]
        after = self.marks[ends[-1] + 1 :] if ends else []
        self.marks = self.marks[: ends[-1] + 1] if ends else []
        sent = [number for what, number, _ in after if what == "issue"]
        outside = tuple(self.messages[number] for number in sent)
        self.messages = self.messages[: len(self.messages) - len(sent)]
        self.nodes = self.nodes[: len(self.messages)]
        return outside

    def timed_marks(self) -> list[tuple[str, int, int]]:
        """The marks in the order of their moments; streams of a device report in another order."""
        spans = [(_since(self.begin, begin), _since(self.begin, end)) for begin, end in self.left_out]
        timed = []
        for what, number, at in self.marks:
            at_ns = _since(self.begin, at)
            ours_ns = sum(max(0, min(end, at_ns) - begin) for begin, end in spans)
            timed.append((what, number, max(0, at_ns - ours_ns)))
        return sorted(timed, key=lambda mark: mark[2])


def _since(origin: Any, moment: Any) -> int:
    if isinstance(moment, _Between):
        return moment.since(origin)
    return moment - origin if isinstance(origin, int) else int(origin.elapsed_time(moment) * 1e6)
