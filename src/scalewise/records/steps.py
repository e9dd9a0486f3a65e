"""Turns the events of one rank into one row per optimizer step.

Every nanosecond between two events is charged to exactly one phase, so the phases of a step add up to the step. A step
opens with the first forward after the previous one (or, if no module is called, when its data arrived) and ends
with its optimizer; a second, different optimizer that follows without a forward between still belongs to it. If the
watcher found that the first forwards led to no gradient, the step begins with the first one that did. A rank that
receives before its first forward, and does nothing else then, is a later stage of a pipeline: its step begins there.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from scalewise.records import events as ev
from scalewise.records.draft import BACKWARD, DATA, FORWARD, OPTIMIZER, OWN, PHASES, StepDraft
from scalewise.records.rows import StepRow


class EventError(ValueError):
    """The error for a list of numbers that is not a list of events."""


def split_events(numbers: Sequence[Any]) -> Iterator[tuple[int, int, Sequence[Any]]]:
    """Yields each event as code, time and values."""
    position, length = 0, len(numbers)
    while position < length:
        stamp = numbers[position]
        if not isinstance(stamp, int) or stamp < 0:
            raise EventError(f"expected a stamp, found {str(stamp)[:40]!r}")
        code = stamp & ev.CODE_MASK
        types = ev.VALUES.get(code, ())
        values = numbers[position + 1 : position + 1 + len(types)]
        if len(values) < len(types) or not all(map(isinstance, values, types)):
            raise EventError(f"event {code} has the values {str(values)[:60]}")
        yield code, stamp & ev.TIME_MASK, values
        position += 1 + len(types)


class StepMachine:
    """Turns a rank's events, fed in order, into steps; a step is complete when the next one opens, or at the end."""

    def __init__(self) -> None:
        self._given: list[tuple[int, StepDraft, int, int]] = []
        self._number = 0  # of the next step
        self._device: dict[int, Sequence[Any]] = {}
        self._origin_ns = -1
        self._phase = OWN
        self._mark_ns = self._begin_ns = self._end_ns = self._data_ns = self._data_end_ns = 0
        self._data_outside_ns = self._compiled_ns = 0
        self._open = self._pending = False
        self._collective_began_ns = 0
        self._received_ns = 0  # between two steps: start of receiving, if the rank has done nothing else since
        self._optimizer_depth = 0
        self._turn_began_ns = self._turn_end_ns = self._waited_ns = 0
        self._turn_came = False
        self._draft = StepDraft()
        self._root: int | None = None  # number of the module that is called
        self._trail: list[tuple[int, int]] = []  # of the open step: times at which each phase began
        self._handlers: dict[int, Callable[[int, Sequence[Any]], None]] = {
            ev.FORWARD: self._forward,
            ev.TRANSFORM: self._transform,
            ev.BACKWARD: self._backward,
            ev.BACKWARD_END: self._backward_end,
            ev.GRAD_END: self._grad_end,
            ev.PAUSE: self._pause,
            ev.OPTIMIZER: self._optimizer,
            ev.OPTIMIZER_END: self._optimizer_end,
            ev.WAKE: self._wake,
            ev.DATA: self._data,
            ev.DATA_END: self._data_done,
            ev.COLLECTIVE: self._collective,
            ev.COLLECTIVE_END: self._collective_end,
            ev.REDUCER: self._reducer,
            ev.SCALER: self._scaler,
            ev.AUTOCAST: self._autocast,
            ev.LOSS: self._loss,
            ev.DEVICE: self._device_times,
            ev.COMPILED: self._compiled,
            ev.TURN: self._turn,
            ev.TURN_END: self._turn_end,
            ev.TURN_LEFT: self._turn_left,
            ev.DROPPED: self._dropped,
            ev.ROOT: self._new_root,
            ev.UNUSED: self._unused,
            ev.BATCH: self._batch,
            ev.EVALUATED: self._evaluated,
            ev.DRAWN: self._drawn,
        }

    def feed(self, numbers: Sequence[Any]) -> None:
        """Takes one line's events; raises `EventError` on a list that cannot be read."""
        for code, time_ns, values in split_events(numbers):
            if self._origin_ns < 0:
                self._origin_ns = time_ns
            handler = self._handlers.get(code)
            if handler is not None:
                handler(time_ns, values)

    def gap(self) -> None:
        """Notes that a line is missing, so that an open step cannot be trusted and is discarded."""
        self._open = self._pending = False
        self._draft = StepDraft()
        self._end_ns = self._optimizer_depth = self._data_outside_ns = self._waited_ns = self._received_ns = 0
        self._turn_came = False
        self._root = None

    def steps(self) -> tuple[StepRow, ...]:
        """All whole steps so far, with the device's own times where it gave them."""
        if self._pending:
            self._give()
        return tuple(
            draft.row(step, begin_ns - self._origin_ns, end_ns - begin_ns, self._device.get(step))
            for step, draft, begin_ns, end_ns in self._given
        )

    # ---- one handler per event

    def _forward(self, time_ns: int, values: Sequence[Any]) -> None:
        if not self._open:
            self._open_step(self._received_ns or time_ns)
        if self._phase != FORWARD:
            self._switch(FORWARD, time_ns)
        self._draft.add_call(time_ns, self._root, values[0])

    def _transform(self, time_ns: int, values: Sequence[Any]) -> None:
        if not self._open:
            self._open_step(time_ns)
            self._switch(FORWARD, time_ns)

    def _backward(self, time_ns: int, values: Sequence[Any]) -> None:
        if not self._open:
            self._open_unseen(time_ns)
        self._switch(BACKWARD, time_ns)
        self._draft.add_loss(values[0])

    def _backward_end(self, time_ns: int, values: Sequence[Any]) -> None:
        self._resume(time_ns, values)
        self._draft.micro_batches += 1
        self._draft.end_pass(in_optimizer=self._optimizer_depth > 0)

    def _grad_end(self, time_ns: int, values: Sequence[Any]) -> None:
        self._resume(time_ns, values)
        self._draft.grads += 1

    def _resume(self, time_ns: int, values: Sequence[Any]) -> None:
        self._switch(OPTIMIZER if self._optimizer_depth else OWN, time_ns)

    def _pause(self, time_ns: int, values: Sequence[Any]) -> None:
        self._switch(OWN, time_ns)

    def _optimizer(self, time_ns: int, values: Sequence[Any]) -> None:
        self._optimizer_depth += 1
        if self._optimizer_depth > 1:
            return
        if not self._open:
            if self._pending and values[0] not in self._draft.optimizers:
                self._reopen()
            else:
                self._open_step(time_ns)
        self._draft.optimizers += (values[0],)
        self._switch(OPTIMIZER, time_ns)

    def _optimizer_end(self, time_ns: int, values: Sequence[Any]) -> None:
        self._optimizer_depth = max(0, self._optimizer_depth - 1)
        if self._optimizer_depth or not self._open:
            return
        self._switch(OWN, time_ns)
        self._end_ns = time_ns
        self._open, self._pending = False, True
        if not self._draft.micro_batches and self._draft.grads:  # no backward followed: these calls were the passes
            self._draft.micro_batches = self._draft.grads
        if self._draft.coming.calls:
            self._draft.end_pass(in_optimizer=False)

    def _data(self, time_ns: int, values: Sequence[Any]) -> None:
        self._data_ns = time_ns
        self._received_ns = 0
        if self._open:
            self._switch(DATA, time_ns)

    def _data_done(self, time_ns: int, values: Sequence[Any]) -> None:
        self._data_end_ns = time_ns
        if self._open:
            self._resume(time_ns, values)
        elif self._data_ns:
            self._data_outside_ns += time_ns - self._data_ns

    def _collective(self, time_ns: int, values: Sequence[Any]) -> None:
        self._collective_began_ns = time_ns

    def _collective_end(self, time_ns: int, values: Sequence[Any]) -> None:
        kind, size_bytes = values
        if not self._open:
            self._received_ns = (self._received_ns or self._collective_began_ns) if kind == "recv" else 0
        self._target().add_collective(str(kind), 1, size_bytes, time_ns - self._collective_began_ns)

    def _reducer(self, time_ns: int, values: Sequence[Any]) -> None:
        kind, count, size_bytes = values
        self._target().add_collective(str(kind), count, size_bytes, 0)

    def _scaler(self, time_ns: int, values: Sequence[Any]) -> None:
        self._draft.skipped, scale = bool(values[0]), values[1]
        self._draft.scale = scale if scale is not None else self._draft.scale

    def _autocast(self, time_ns: int, values: Sequence[Any]) -> None:
        self._target().autocast = str(values[0])

    def _loss(self, time_ns: int, values: Sequence[Any]) -> None:
        self._target().shown_losses.append(values[0])

    def _device_times(self, time_ns: int, values: Sequence[Any]) -> None:
        step, *times = values
        resolved = times[2]
        if resolved is not None and (len(resolved) != PHASES or not all(isinstance(ns, int) for ns in resolved)):
            raise EventError(f"a device resolved {str(resolved)[:60]} instead of {PHASES} phases")
        self._device[step] = times

    def _compiled(self, time_ns: int, values: Sequence[Any]) -> None:
        self._compiled_ns = time_ns

    def _wake(self, time_ns: int, values: Sequence[Any]) -> None:
        if self._pending:
            self._give()
        self.gap()
        self._end_ns = time_ns
        self._number = max(self._number, values[0])

    def _turn(self, time_ns: int, values: Sequence[Any]) -> None:
        self._turn_began_ns = time_ns

    def _turn_end(self, time_ns: int, values: Sequence[Any]) -> None:
        self._turn_came = True
        self._turn_left(time_ns, values)

    def _turn_left(self, time_ns: int, values: Sequence[Any]) -> None:
        if self._turn_began_ns:
            self._waited_ns += time_ns - self._turn_began_ns
        self._turn_began_ns, self._turn_end_ns = 0, time_ns

    def _dropped(self, time_ns: int, values: Sequence[Any]) -> None:
        """Drops a step whose optimizer raised: the time since the last step counts as time between two steps."""
        self._open, self._optimizer_depth = False, 0
        self._draft = StepDraft()

    def _new_root(self, time_ns: int, values: Sequence[Any]) -> None:
        self._root = values[0]

    def _unused(self, time_ns: int, values: Sequence[Any]) -> None:
        """Removes calls of trained modules that led to no gradient (a rollout) from the step."""
        count, began_ns = values[0], values[1] & ev.TIME_MASK
        if self._open and self._begin_ns < began_ns <= time_ns and not self._draft.waited_inside_ns:
            self._draft.opened_at(began_ns)
            self._begin_later(began_ns)
        self._draft.drop_calls(count, self._begin_ns)

    def _batch(self, time_ns: int, values: Sequence[Any]) -> None:
        self._target().coming.batches.append(values[0])

    def _evaluated(self, time_ns: int, values: Sequence[Any]) -> None:
        self._target().coming.batches.clear()
        self._target().coming.drawn.clear()

    def _drawn(self, time_ns: int, values: Sequence[Any]) -> None:
        self._target().coming.drawn.append(values[0])

    # ---- the life of a step

    def _target(self) -> StepDraft:
        """The draft that gets new events: after a step has ended that of the next one, even before it opens."""
        if self._pending:
            return self._draft.next()
        return self._draft

    def _open_step(self, time_ns: int) -> None:
        if self._pending:
            self._give()
        self._open = True
        self._received_ns = 0
        self._begin_ns = self._mark_ns = time_ns
        self._phase = OWN
        self._trail = [(time_ns, OWN)]
        self._draft.spent = [0] * PHASES
        self._draft.data_outside_ns = self._data_outside_ns
        self._take_wait(time_ns)
        between_ns = time_ns - self._end_ns - self._data_outside_ns - self._draft.waited_outside_ns
        self._draft.between_ns = max(0, between_ns) if self._end_ns else None
        self._data_outside_ns = 0

    def _open_unseen(self, time_ns: int) -> None:
        """Opens a step without a module call: at the entry of a compiled function, or else when the data came."""
        began_ns = max(self._data_end_ns, self._end_ns)
        if self._compiled_ns > began_ns:
            self._open_step(self._compiled_ns)
            self._switch(FORWARD, self._compiled_ns)
        else:
            self._open_step(began_ns or time_ns)
        self._draft.spent[self._phase] -= self._draft.waited_inside_ns

    def _take_wait(self, begin_ns: int) -> None:
        """Takes the wait for a turn out of the step, also if the step turns out to have begun before the wait."""
        draft, waited_ns = self._draft, self._waited_ns
        draft.turn_ns = waited_ns if self._turn_came else None
        inside = self._turn_end_ns > begin_ns
        draft.waited_inside_ns, draft.waited_outside_ns = (waited_ns, 0) if inside else (0, waited_ns)
        self._waited_ns, self._turn_came = 0, False

    def _reopen(self) -> None:
        """Reopens the step for a further optimizer on the same gradients: what came in between belongs to the step."""
        self._open, self._pending = True, False
        self._draft.spent[DATA] += self._data_outside_ns
        self._mark_ns = self._end_ns + self._data_outside_ns
        self._data_outside_ns = 0
        self._draft.absorb_next()

    def _switch(self, phase: int, time_ns: int) -> None:
        if self._open:
            self._draft.spent[self._phase] += time_ns - self._mark_ns
            self._mark_ns = time_ns
            self._phase = phase
            self._trail.append((time_ns, phase))

    def _begin_later(self, began_ns: int) -> None:
        """Moves the step's beginning to a later time: what came before counts as data or as time between two steps."""
        draft, data_ns = self._draft, 0
        for (start_ns, phase), (end_ns, _) in pairwise((*self._trail, (self._mark_ns, OWN))):
            before_ns = max(0, min(end_ns, began_ns) - start_ns)
            draft.spent[phase] -= before_ns
            data_ns += before_ns if phase == DATA else 0
        draft.data_outside_ns += data_ns
        if draft.between_ns is not None:
            draft.between_ns += began_ns - self._begin_ns - data_ns
        self._begin_ns = began_ns
        self._mark_ns = max(self._mark_ns, began_ns)
        self._trail = [(began_ns, FORWARD)]

    def _give(self) -> None:
        self._pending = False
        self._given.append((self._number, self._draft, self._begin_ns, self._end_ns))
        self._number += 1
        self._draft = self._draft.next()


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
