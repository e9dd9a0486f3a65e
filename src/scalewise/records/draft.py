"""A step that is put together from events until it is a row."""

from collections.abc import Sequence
from typing import Any

from scalewise.records.rows import StepRow
from scalewise.records.samples import Call, Pass, count_samples

OWN, FORWARD, BACKWARD, OPTIMIZER, DATA = range(5)
PHASES = 5


class StepDraft:
    """A step that is being put together from a rank's events."""

    def __init__(self) -> None:
        self.spent = [0] * PHASES
        self.data_outside_ns = 0
        self.between_ns: int | None = None
        self.optimizers: tuple[int, ...] = ()
        self.micro_batches = 0
        self.grads = 0  # calls of autograd.grad whose result may only feed a later backward
        self.passes: list[Pass] = []  # the passes that have ended
        self.coming = Pass()  # what belongs to the next pass
        self.opened_by: int | None = None
        self.loss: float | None = None
        self.shown_losses: list[float | None] = []
        self.autocast: str | None = None
        self.scale: float | None = None
        self.skipped = False
        self.collectives: dict[str, tuple[int, int]] = {}
        self.collective_ns = 0
        self.turn_ns: int | None = None  # time waited for the step's turn, if the turn came
        self.waited_outside_ns = self.waited_inside_ns = 0  # the part before the step began, and the rest
        self._next: StepDraft | None = None

    def next(self) -> "StepDraft":
        """Returns the draft of the step after this one; the scale stays the same until it is read again."""
        if self._next is None:
            self._next = StepDraft()
            self._next.scale = self.scale
        return self._next

    def absorb_next(self) -> None:
        """Moves to this step what had been counted for the next one."""
        if self._next is not None:
            for kind, (count, size_bytes) in self._next.collectives.items():
                self.add_collective(kind, count, size_bytes, 0)
            self.collective_ns += self._next.collective_ns
            self.coming.batches += self._next.coming.batches
            self.coming.drawn += self._next.coming.drawn
            self._next = None

    def add_call(self, time_ns: int, root: int | None, rows: int | None) -> None:
        """Counts a call of a module that is trained."""
        self.coming.calls.append(Call(time_ns, root, rows))
        if self.opened_by is None:
            self.opened_by = root

    def end_pass(self, in_optimizer: bool) -> None:
        """Ends a pass: gradients were computed for the calls since the last pass."""
        self.coming.in_optimizer = in_optimizer
        self.passes.append(self.coming)
        self.coming = Pass()

    def drop_calls(self, count: int, begin_ns: int) -> None:
        """Drops the first calls of the current or last pass, which led to no gradient; some may lie inside the step."""
        one = self.coming if self.coming.calls or not self.passes else self.passes[-1]
        dropped, one.calls = one.calls[: max(0, count)], one.calls[max(0, count) :]
        one.fed += [call.rows for call in dropped if call.time_ns >= begin_ns]

    def opened_at(self, time_ns: int) -> None:
        """Sets the module that opened the step, when the step began with a later call than the first one."""
        calls = (call for one in (*self.passes, self.coming) for call in one.calls if call.time_ns == time_ns)
        self.opened_by = next((call.root for call in calls), self.opened_by)

    def add_loss(self, loss: float | None) -> None:
        """Adds the loss on which a backward pass was called, or the one that the scaler was shown in its place."""
        if self.shown_losses:
            loss = self.shown_losses.pop(0)
        if loss is not None:
            self.loss = loss if self.loss is None else self.loss + loss

    def add_collective(self, kind: str, count: int, size_bytes: int, blocked_ns: int) -> None:
        """Counts one call of a collective, or all those that a reducer issues in one pass."""
        had = self.collectives.get(kind, (0, 0))
        self.collectives[kind] = (had[0] + count, had[1] + size_bytes)
        self.collective_ns += blocked_ns

    def row(self, step: int, at_ns: int, host_ns: int, device: Sequence[Any] | None) -> StepRow:
        """The finished row; a device's own times replace the host's, which only show when work was queued."""
        step_ns, between_ns, spent = host_ns - self.waited_inside_ns, self.between_ns, self.spent
        phases: tuple[int | None, ...] = (spent[FORWARD], spent[BACKWARD], spent[OPTIMIZER], spent[OWN])
        inside_ns = spent[DATA]
        if device is not None:
            step_ns, since_ns, resolved, loss = device
            between_ns = None if since_ns is None else max(0, since_ns - self.data_outside_ns - self.waited_outside_ns)
            phases = (None,) * 4
            if resolved is not None:
                inside_ns = resolved[DATA]
                phases = (resolved[FORWARD], resolved[BACKWARD], resolved[OPTIMIZER], resolved[OWN])
            self.loss = loss if loss is not None else self.loss
        counted = count_samples((*self.passes, self.coming))
        finite = self.loss is None or abs(self.loss) < float("inf")  # not true of NaN either
        return StepRow(
            step=step,
            optimizer=self.optimizers[-1] if self.optimizers else 0,
            at_ns=at_ns,
            step_ns=step_ns,
            data_ns=self.data_outside_ns + inside_ns,
            data_inside_ns=inside_ns,
            forward_ns=phases[0],
            backward_ns=phases[1],
            optimizer_ns=phases[2],
            rest_ns=phases[3],
            between_ns=between_ns,
            micro_batches=self.micro_batches,
            samples=counted.samples,
            loss=self.loss if finite else None,
            non_finite=not finite,
            autocast=self.autocast,
            scale=self.scale,
            skipped=self.skipped,
            collectives=self.collectives,
            collective_ns=self.collective_ns,
            turn_ns=self.turn_ns,
            opened_by=self.opened_by,
            samples_at=counted.root,
            samples_unknown=counted.unknown,
        )
