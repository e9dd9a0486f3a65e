"""Notes the events of a training loop; knows nothing of torch, and takes as little of the script's time as it can.

In the timed region a hook only appends a stamp and at most two values to a list. What the events mean is worked out
when they are read (`records.steps`); they are written between two steps, many at once.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from scalewise.records.events import (
    COLLECTIVE,
    COLLECTIVE_END,
    DROPPED,
    ENDED,
    EVALUATE,
    FORWARD,
    OPTIMIZER,
    OPTIMIZER_END,
    PAUSE,
    REDUCER,
    TIME_MASK,
    TRANSFORM,
    TURN,
    UNUSED,
    WAKE,
)
from scalewise.records.pulse import PID, STAMP, STEPS, SYNCS
from scalewise.records.rows import EndRow, StartRow
from scalewise.records.spec import Change, RunSpec
from scalewise.watch.journal import MOST_TROUBLES, Journal, host_stamper, now_ns
from scalewise.watch.look_intervals import (
    FIRST_STEPS,
    MARK_EVERY,
    REST_STEPS,
    FollowedBatches,
    FollowedCalls,
    Probe,
    device_rest,
    host_rest,
)
from scalewise.watch.step_clocks import Clock
from scalewise.watch.step_interleave import Ring


class Recorder:
    """The record of one rank's training loop. One instance per process; only the script's main thread calls it."""

    def __init__(self, journal: Journal, pulse: memoryview, rank: int, changes: Sequence[Change] = ()) -> None:
        self.journal = journal
        self.pulse = pulse
        self.on = True  # False: this process is not, or no longer, watched
        self.awake = True  # False: these steps are not watched, only counted
        self.rested = 0  # steps since the last watched one
        self.after_backward: Callable[[], None] | None = None  # for a wrapper that may have communicated in it
        self.on_unseen_forward: Callable[[], None] = lambda: None
        self.on_rest: list[Callable[[bool], None]] = []  # hooks that step aside while steps are not watched
        self.on_stepped: list[Callable[[], None]] = []  # told when a step has ended
        self.may_rest = not changes  # nothing has been seen that must be watched at every step
        self._rest_after = host_rest
        self.rest_steps = REST_STEPS  # to count before one is watched again
        self._opened_ns = 0
        self.value = journal.events.append  # adds a value to the event just stamped
        self.stamp = self._host_stamp = self._device_stamp = host_stamper(pulse, journal.events.append)
        self.clock: Clock | None = None  # None: when a call returns, its work is done
        self.ring: Ring | None = None  # for runs that make their steps in turns
        self.probe: Probe | None = None
        self.describe: Callable[[], StartRow] | None = None
        self.spec: RunSpec | None = None  # None: the rank was not armed by one
        self._all_changes = tuple(changes)
        self.on_rank: list[Callable[[], None]] = []  # told when the rank is known
        self.slow_seconds = self.delay_seconds = 0.0  # slept in each step, and before each backward pass
        self.take_rank(rank)
        self.applied: dict[str, int] = {}
        self.exception: str | None = None
        self.started = False
        self.step = -1  # of the step that is open, or of the last one
        self._ended_steps = 0
        self.open = self.sampled = False
        self.marked = False  # the device marks the phases of this step
        self.plain_backward = False  # nothing to do before the backward passes of this step
        self.loss_shown = False  # the scaler was shown the loss of the next backward pass, unscaled
        self._stepped = 0  # bit i: optimizer i has ended the last step
        self.optimizer_depth = 0
        self.backward_depth = 0
        self.optimizer_steps = 0  # steps that really ran: a scaler may skip its optimizer's
        self.compiles = False  # torch.compile is at work in this script
        self.compiled_entry = False  # a compiled function has been entered since the last step
        self.attention = False  # a hook wants the probe to look before the next step opens
        self.transform_ns = 0  # when torch.func began the outermost transform, outside any step
        self.fetching = False  # inside DataLoader.__next__: modules called there are no part of a step
        self.batches_between: FollowedBatches | None = None  # what the DataLoaders delivered since the last step
        self.passes = 0  # backward passes so far
        self.uses: FollowedCalls | None = None
        self.stepped_in_backward: int | None = None  # the optimizer that has stepped inside the backward under way
        self.called_in_evaluation = False  # a trained module was called in evaluation mode, with gradients enabled
        self.trains_in_evaluation = False  # such calls are how this script trains

    def take_rank(self, rank: int) -> None:
        """Becomes this rank, which decides the file and the changes; before the first row is written."""
        self.rank = self.journal.rank = rank
        self.changes = tuple(one for one in self._all_changes if one.rank in (None, rank))
        for tell in self.on_rank:
            tell()

    # ---- events of the loop; simple ones are stamped by their hooks alone

    def open_step(self) -> None:
        """Writes, reads what is due, and opens the next step, between two steps."""
        if not self.started:
            self._start()
        if self.clock is not None:
            self.clock.close()
        if self.attention and self.probe is not None:
            self.attention = False
            self.probe.look(self.step + 1)
        if self.journal.flush_if_due() and self.probe is not None:
            self.probe.note_level_if_due(self.step + 1)
        if self.ring is not None:
            if self.clock is not None:
                self.clock.settle()  # or the others would share the device with what is left of the last step
            if not self.ring.take_turn(self._host_stamp, lambda: self.show_life(TURN)):
                self.ring = None
        self.step = step = self.step + 1
        self.sampled = sampled = step & (step - 1) == 0  # steps 0, 1, 2, 4, 8, ...
        self.plain_backward = not sampled and not self.delay_seconds
        self.open = True
        self._stepped = 0
        self.passes += 1  # calls before this moment belong to no pass of this step
        followed = False
        if self.uses is not None:
            self.uses.step_opens()
            followed = self.uses.following
        if self.batches_between is not None:
            self.batches_between.step_opens()
        self._opened_ns = self.pulse[STAMP]
        if self.clock is not None:
            self.marked = marked = sampled or followed or step % MARK_EVERY == 0 or self.clock.marks_all
            self.stamp = self._device_stamp if marked else self._host_stamp
            self.clock.begin(step, marked)
        if self.slow_seconds:
            self.stamp(FORWARD)  # the step has begun; what follows is a delay inside it
            self.value(None)
            self._sleep("slow_rank", self.slow_seconds)

    def open_in_transform(self) -> None:
        """Opens a step that began when torch.func began: what it did until now is a part of the step.

        The watcher's own work in `open_step` is not, so the beginning is moved by as much.
        """
        prepared_ns = now_ns() - self.transform_ns
        self.open_step()
        self.journal.events.append(now_ns() - prepared_ns & TIME_MASK | TRANSFORM)

    def evaluating(self) -> None:
        """Shows life when the outermost module is called without gradients or in evaluation mode, which is no step."""
        self.show_life(EVALUATE)

    def show_life(self, code: int) -> None:
        """Writes a sign of life that is no event of a step."""
        self.pulse[STAMP] = now_ns() & TIME_MASK | code

    def prepare_backward(self) -> None:
        """Prepares for a backward pass: opens a step if none is open, delays it if asked, reads memory if sampled."""
        if self.called_in_evaluation and self.uses is not None and (not self.open or self.optimizer_depth):
            self.trains_in_evaluation = self.uses.several = True
        if not self.open:
            self.on_unseen_forward()
            self.open_step()
        if self.delay_seconds:
            self._sleep("sleep_before_backward", self.delay_seconds)
        if self.sampled and self.probe is not None:
            self.probe.at_backward()

    def optimizer_begin(self, optimizer: int) -> None:
        """Begins an optimizer's step (or that of the scaler around it); closures run forward and backward inside it."""
        self.optimizer_depth += 1
        if self.optimizer_depth == 1:
            if not self.open:
                # A different optimizer than those of the last step works on the same gradients: no new step.
                if not self._stepped or self._stepped >> optimizer & 1:
                    self.open_step()
                self.open = True
            self.stamp(OPTIMIZER)
            self.value(optimizer)

    def optimizer_end(self, optimizer: int) -> None:
        """Ends the step when the parameters are updated, unless another optimizer still follows."""
        self.optimizer_depth -= 1
        if self.optimizer_depth:
            return
        if self.clock is not None:
            self.clock.end()
        self._host_stamp(OPTIMIZER_END)
        self.open = self.compiled_entry = self.called_in_evaluation = False
        self._stepped |= 1 << optimizer
        for tell in self.on_stepped:
            tell()
        self.pulse[STEPS] = self._ended_steps = self.step + 1
        if optimizer:
            self.may_rest = False  # loops with several optimizers have steps of several kinds
        if self.may_rest and self.step >= FIRST_STEPS:
            self._rest_if_fast()
        if self.sampled and self.probe is not None:
            self.probe.after_step(self.step)

    def end_in_backward(self) -> None:
        """Ends the step with the backward pass, if optimizers have stepped inside it, as gradients became ready."""
        optimizer, self.stepped_in_backward = self.stepped_in_backward, None
        if optimizer is not None and not self.optimizer_depth:
            self.optimizer_begin(optimizer)
            self.optimizer_end(optimizer)

    def begin_later(self, unused: int, begins: int, began: int) -> None:
        """Notes that the first `unused` calls of the pass led to no gradient: the step began with call `begins`.

        `began` is that call's stamp. A step that is delayed on purpose began before its first call: it stays as it is.
        """
        if self.slow_seconds:
            began, unused = 0, unused + 1  # the delay was noted as a call of its own
        self.note(UNUSED, unused, began)
        if began and self.clock is not None and self.marked:
            self.clock.begin_later(begins)

    def drop_step(self, depth: int) -> None:
        """Drops the open step, as an optimizer has raised and the script has caught the exception."""
        self.optimizer_depth = depth
        if self.open and not depth:
            self.note(DROPPED)
            self.open = self.compiled_entry = False
            self.step -= 1

    def _rest_if_fast(self) -> None:
        self.rest_steps = self._rest_after(self.pulse[STAMP] - self._opened_ns)
        if self.rest_steps:
            if self.clock is not None:
                self.clock.rest()
            self.awake, self.rested = False, 0
            for tell in self.on_rest:
                tell(True)

    def wake(self) -> None:
        """Watches the next step, which begins where this one ends, after enough steps were only counted."""
        self._wake()
        self._host_stamp(WAKE)
        self.value(self.step + 1)

    def _wake(self) -> None:
        self.awake = True
        for tell in self.on_rest:
            tell(False)
        self.step += self.rested
        self.pulse[STEPS] = self._ended_steps = self.step + 1

    def collective_begin(self) -> None:
        """Begins a collective that the script or a wrapper calls through torch.distributed."""
        self.sync_expected()
        self.stamp(COLLECTIVE)

    def collective_end(self, kind: str, size_bytes: int) -> None:
        """Ends a collective's call, which for an asynchronous one does not mean that it is done."""
        self.stamp(COLLECTIVE_END)
        self.value(kind)
        self.value(size_bytes)

    def sync_expected(self) -> None:
        """Notes that this rank is about to wait for the others, now or in its next backward pass."""
        self.may_rest = False
        self.pulse[SYNCS] += 1

    def reduces(self, kind: str, count: int, size_bytes: int) -> None:
        """Notes collectives that are not seen as calls: those of DDP's reducer."""
        self.note(REDUCER, kind, count, size_bytes)

    def note(self, code: int, *values: Any) -> None:
        """Notes an event without a duration, which is no sign of life."""
        self.journal.events += (now_ns() & TIME_MASK | code, *values)

    # ---- the life of the recorder

    def intervene(self, kind: str) -> None:
        """Counts that a change took effect once more."""
        self.applied[kind] = self.applied.get(kind, 0) + 1

    def broke(self, where: str, error: BaseException) -> None:
        """Notes that a hook failed: the script goes on; a watcher that keeps failing switches itself off."""
        self.journal.trouble(where, error)
        if self.journal.troubles > MOST_TROUBLES:
            self.on = False
            self._leave_ring()

    def failed(self, description: str) -> None:
        """Keeps the description of the exception that is about to end the script."""
        self.exception = description

    def raised(self, concerns: tuple[str, ...], error: BaseException) -> None:
        """Notes an exception that seems to be the watcher's own."""
        self.journal.raised(concerns, error)

    def finish(self) -> None:
        """Writes what is left to be written when the interpreter exits."""
        self._leave_ring()
        if not self.on or not self.started:
            return
        self.on = False
        try:
            if not self.awake:
                self._wake()
            if self.clock is not None:
                self.clock.drain()
            if self.probe is not None:
                self.probe.at_end(self._ended_steps)
        except Exception as error:
            self.journal.trouble("finishing", error)
        opened = 1  # the step that never ended was counted as well
        without_step = max(0, self.passes - opened) if not self._ended_steps else 0
        self.journal.row(EndRow(self._ended_steps, self.exception, self.applied, without_step))
        self.journal.flush()
        self.show_life(ENDED)

    def leave(self) -> None:
        """Stops recording in a forked child (a DataLoader worker), which is not watched."""
        self.on, self.awake = False, True
        self.journal.leave()
        if self.ring is not None:
            self.ring.close()

    def _leave_ring(self) -> None:
        if self.ring is not None:
            self.ring.leave()
            self.ring = None

    def use_clock(self, clock: Clock) -> None:
        """Uses a device's clock from now on: it is called for every step, and in marked steps before each stamp."""
        self.clock = clock
        self._host_stamp = self.stamp
        self.may_rest = self.may_rest and not clock.marks_all
        self._rest_after = device_rest

        def stamp(code: int) -> None:
            clock.mark(code)
            self._host_stamp(code)

        self._device_stamp = stamp

    def _start(self) -> None:
        self.started = True
        if self.describe is not None:
            row = self.describe()
            self.pulse[PID] = row.pid
            self.journal.row(row)

    def _sleep(self, kind: str, seconds: float) -> None:
        self.stamp(PAUSE)
        time.sleep(seconds)
        self.intervene(kind)
