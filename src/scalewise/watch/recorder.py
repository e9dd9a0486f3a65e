"""Turns events of a training loop into one row per optimizer step; knows nothing of torch, so it can be tested alone.

Every nanosecond between two events is charged to exactly one phase, so the phases of a step add up to the step. A row
is written when the next step opens: outside the timed region, and late enough to know whether a second optimizer
still belongs to the same step.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from scalewise.records.pulse import (
    BACKWARD,
    COLLECTIVE,
    DATA,
    ENDED,
    EVALUATING,
    FORWARD,
    MICRO_BATCHES,
    MOVED_NS,
    OPTIMIZER,
    OWN_CODE,
    PID,
    STATE,
    STEPS,
    SYNCS,
)
from scalewise.records.rows import EndRow, StartRow
from scalewise.records.spec import Intervention
from scalewise.watch.clocks import HOST_CLOCK, Clock
from scalewise.watch.journal import MOST_TROUBLES, Journal
from scalewise.watch.step_line import StepLine

now_ns = time.perf_counter_ns


class Probe(Protocol):
    """Looks at memory and the model at sampled steps, outside the timed region."""

    def look(self, step: int) -> None:
        """Something asked for attention between two steps."""

    def at_backward(self) -> None:
        """Backward of a sampled step is about to begin: the activations are alive."""

    def after_step(self, step: int) -> None:
        """A sampled step has ended."""

    def at_end(self, step: int) -> None:
        """The script has ended after so many steps."""


class Recorder:
    """The state of one rank's training loop. One instance per process; only the script's main thread calls it."""

    def __init__(
        self, journal: Journal, pulse: memoryview, rank: int, interventions: Sequence[Intervention] = ()
    ) -> None:
        self.journal = journal
        self.pulse = pulse
        self.rank = rank
        self.on = True
        self.clock: Clock = HOST_CLOCK
        self.probe: Probe | None = None
        self.describe: Callable[[], StartRow] | None = None
        self.interventions = tuple(item for item in interventions if item.rank in (None, rank))
        self.slow_seconds = self._seconds("slow_rank")
        self.delay_seconds = self._seconds("sleep_before_backward")
        self.applied: dict[str, int] = {}
        self.exception: str | None = None
        self.origin_ns = 0
        self.step = 0
        self.phase = OWN_CODE
        self.mark_ns = 0
        self.spent = [0] * (DATA + 1)  # by phase, in this step
        self.begin_ns = self.end_ns = self.data_begin_ns = self.data_end_ns = self.data_outside_ns = 0
        self.open = self.pending = self.sampled = False
        self.optimizer_depth = self.backward_depth = 0
        self.optimizer_steps = 0  # that really ran: a scaler may skip its optimizer's
        self.loss_seen = False  # the scaler has shown the unscaled loss of the next backward
        self.attention = False  # a hook wants the probe to look before the next step opens
        self.fresh = True  # the next forward begins a micro-batch
        self.line = StepLine()
        self.collectives: dict[str, list[int]] = {}
        self.collective_ns = 0

    # ---- events of the loop, in the order a plain loop has them

    def data_begin(self) -> None:
        """The script asks its DataLoader for a batch."""
        if self.open:
            self._switch(DATA)
        else:
            self.data_begin_ns = self.pulse[MOVED_NS] = now_ns()
            self.pulse[STATE] = DATA

    def data_end(self) -> None:
        """The batch is there."""
        if self.open:
            self._switch(OPTIMIZER if self.optimizer_depth else OWN_CODE)
        else:
            self.data_end_ns = now_ns()
            self.data_outside_ns += self.data_end_ns - self.data_begin_ns

    def forward(self, samples: int | None) -> None:
        """The outermost module is called in training mode with gradients on."""
        if not self.open:
            self._open()
            if self.slow_seconds:
                self._sleep("slow_rank", self.slow_seconds)
        if self.phase != FORWARD:
            self._switch(FORWARD)
        if self.fresh:
            self.fresh = False
            self.line.add_samples(samples)

    def evaluating(self) -> None:
        """The outermost module is called without gradients or in evaluation mode: a sign of life, not a step."""
        self.pulse[MOVED_NS] = now_ns()
        self.pulse[STATE] = EVALUATING

    def backward_begin(self) -> None:
        """Gradients are about to be computed."""
        if not self.open:
            # No module was called: the step began when its data arrived, or when the previous one ended.
            self._open(began_ns=max(self.data_end_ns, self.end_ns))
        if self.delay_seconds:
            self._sleep("sleep_before_backward", self.delay_seconds)
        if self.sampled and self.probe is not None:
            self.probe.at_backward()
        self._switch(BACKWARD)

    def backward_end(self, counts: bool = True) -> None:
        """Gradients are there; a pass that only helps another one (a gradient penalty) is no micro-batch."""
        self._switch(OPTIMIZER if self.optimizer_depth else OWN_CODE)
        if counts:
            self.line.micro_batches += 1
            self.pulse[MICRO_BATCHES] += 1
            self.fresh = True

    def optimizer_begin(self, optimizer: int) -> None:
        """An optimizer (or the scaler around it) begins its step; closures run forward and backward inside it."""
        self.optimizer_depth += 1
        if self.optimizer_depth > 1:
            return
        if not self.open:
            if self.pending and optimizer not in self.line.optimizers:
                self._reopen()
            else:
                self._open()
        self._switch(OPTIMIZER)

    def optimizer_end(self, optimizer: int) -> None:
        """The parameters are updated: the step ends here, unless another optimizer still follows."""
        self.optimizer_depth -= 1
        if self.optimizer_depth:
            return
        self.clock.end()
        ended_ns = now_ns()
        self.spent[self.phase] += ended_ns - self.mark_ns
        self.phase = OWN_CODE
        self.end_ns = ended_ns
        self.open, self.pending, self.fresh = False, True, True
        self.line.ended_by(optimizer, self.collectives, self.collective_ns)
        self.collectives, self.collective_ns = {}, 0
        self.pulse[MOVED_NS], self.pulse[STATE], self.pulse[STEPS] = ended_ns, OWN_CODE, self.step + 1
        if self.sampled and self.probe is not None:
            self.probe.after_step(self.step)

    def collective_begin(self) -> int:
        """A collective that the script or a wrapper calls through torch.distributed; gives the time to hand back."""
        self.pulse[STATE] = COLLECTIVE
        self.pulse[SYNCS] += 1
        self.pulse[MOVED_NS] = began_ns = now_ns()
        return began_ns

    def collective_end(self, kind: str, size_bytes: int, began_ns: int) -> None:
        """The call has returned, which for an asynchronous one does not mean that it is done."""
        self.pulse[MOVED_NS] = ended_ns = now_ns()
        self.pulse[STATE] = self.phase
        self.collective_ns += ended_ns - began_ns
        self.add_collectives(kind, 1, size_bytes)

    def sync_expected(self) -> None:
        """The next backward pass will wait for the other ranks."""
        self.pulse[SYNCS] += 1

    def add_collectives(self, kind: str, count: int, size_bytes: int) -> None:
        """Counts collectives that were not seen as calls, too: those of DDP's reducer."""
        total = self.collectives.setdefault(kind, [0, 0])
        total[0] += count
        total[1] += size_bytes

    # ---- the life of the recorder

    def intervene(self, kind: str) -> None:
        """Counts that an intervention took effect once more."""
        self.applied[kind] = self.applied.get(kind, 0) + 1

    def broke(self, where: str, error: BaseException) -> None:
        """A hook failed: the script goes on; a watcher that keeps failing falls silent."""
        self.journal.trouble(where, error)
        if self.journal.troubles > MOST_TROUBLES:
            self.on = False

    def failed(self, description: str) -> None:
        """The script is about to end with this exception."""
        self.exception = description

    def finish(self) -> None:
        """At interpreter exit: writes what is still open to writing."""
        if not self.on or not self.origin_ns:
            return
        self.on = False
        try:
            if self.pending:
                self._write()
            self.clock.drain()
            if self.probe is not None:
                self.probe.at_end(self.step)
        except Exception as error:
            self.journal.trouble("finishing", error)
        self.journal.row(EndRow(self.step, self.exception, self.applied))
        self.journal.flush()
        self.pulse[MOVED_NS], self.pulse[STATE] = now_ns(), ENDED

    def leave(self) -> None:
        """In a forked child (a DataLoader worker): nothing here is its business."""
        self.on = False
        self.journal.leave()

    def _open(self, began_ns: int = 0) -> None:
        if not self.origin_ns:
            self._start()
        if self.pending:
            self._write()
        self.spent = [0] * (DATA + 1)
        self.sampled = self.step & (self.step - 1) == 0  # steps 0, 1, 2, 4, 8, ...
        self.open = True
        self.clock.begin(self.sampled)
        self.begin_ns = began_ns or now_ns()
        between_ns = self.begin_ns - self.end_ns - self.data_outside_ns if self.end_ns else None
        self.line.open(self.step, self.begin_ns - self.origin_ns, self.data_outside_ns, between_ns)
        self.data_outside_ns = 0
        self.mark_ns = self.begin_ns

    def _reopen(self) -> None:
        """A further optimizer steps on the same gradients: what came since its predecessor belongs to the step."""
        self.open, self.pending = True, False
        self.spent[DATA] += self.data_outside_ns
        self.mark_ns = self.end_ns + self.data_outside_ns
        self.data_outside_ns = 0

    def _switch(self, phase: int) -> None:
        self.clock.mark(phase)
        moment_ns = now_ns()
        self.spent[self.phase] += moment_ns - self.mark_ns
        self.mark_ns = moment_ns
        self.phase = phase
        self.pulse[MOVED_NS] = moment_ns
        self.pulse[STATE] = phase

    def _write(self) -> None:
        self.pending = False
        self.step += 1
        self.clock.write(self.line, self.end_ns - self.begin_ns, self.spent, self.journal)
        self.line = StepLine(self.line)
        if self.attention and self.probe is not None:
            self.attention = False
            self.probe.look(self.step)

    def _start(self) -> None:
        self.origin_ns = now_ns()
        if self.describe is not None:
            row = self.describe()
            self.pulse[PID] = row.pid
            self.journal.row(row)

    def _sleep(self, kind: str, seconds: float) -> None:
        self._switch(OWN_CODE)
        time.sleep(seconds)
        self.intervene(kind)

    def _seconds(self, kind: str) -> float:
        return sum(item.seconds for item in self.interventions if item.kind == kind)
