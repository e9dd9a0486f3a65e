"""A step that is put together from events until it is a row, and the count of its samples.

The samples are counted from the calls of the trained modules and from what the DataLoaders delivered.
The rows of a module's input are the samples of a backward pass, and several passes add up. If one module is called
several times before one backward pass, the calls may see the same samples (a siamese network, a network unrolled over
time) or different ones (parts of a batch). The batches of a DataLoader can tell, or another module that is called once
(an encoder before its decoder, a generator before its critic); without them the number is unknown. For a batch that
shows no rows, such as one of graphs, the samples drawn for it count.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from scalewise.records.rows import StepRow

# Reasons why the samples of a step are not known. `{module}` is the module that was called.
REASONS = {
    "no call": "no call of a module with trained parameters was seen in a step (it is hidden in compiled code, or the "
    "script computes with plain tensors)",
    "no rows": "the input of {module} holds no tensor with a first dimension",
    "several calls": "{module} is called several times before one backward pass, and no batch of a DataLoader tells "
    "whether the calls see the same samples",
}


@dataclass(frozen=True)
class Call:
    """A call of a module that is trained, from outside all modules."""

    time_ns: int
    root: int | None  # number of the module; None in files that do not name it
    rows: int | None


@dataclass
class Pass:
    """The calls and batches before one backward pass, since the pass before it."""

    calls: list[Call] = field(default_factory=list)
    fed: list[int | None] = field(default_factory=list)  # rows of calls whose detached result only feeds other calls
    batches: list[int] = field(default_factory=list)  # rows of each batch that a DataLoader delivered
    drawn: list[int] = field(default_factory=list)  # samples of each batch whose rows cannot be seen
    in_optimizer: bool = False  # made by a closure, which computes the same loss again and again


@dataclass(frozen=True)
class Counted:
    """The samples of a step, or the reason why they are not known."""

    samples: int | None
    root: int | None  # number of the module at whose input they were counted
    unknown: str = ""  # a key of `REASONS`


def count_samples(passes: Sequence[Pass]) -> Counted:
    """Adds up the samples of a step's passes; passes that see the same batch again count once."""
    batches = [rows for one in passes for rows in one.batches]
    counted = [_of_pass(one, batches) for one in passes if one.calls and not one.in_optimizer]
    closures = [_of_pass(one, batches) for one in passes if one.calls and one.in_optimizer]
    counted += closures[:1]
    if not counted:
        return Counted(None, None, "no call")
    unknown = next((one for one in counted if one.samples is None), None)
    if unknown is not None:
        return unknown
    samples = [one.samples or 0 for one in counted]
    again = len(batches) == 1 and all(rows == batches[0] for rows in samples)
    return Counted(batches[0] if again else sum(samples), counted[0].root)


def _of_pass(one: Pass, batches_of_step: Sequence[int]) -> Counted:
    calls = [(call.root, call.rows) for call in one.calls if call.rows is not None]
    if not calls:
        return Counted(None, one.calls[0].root, "no rows")
    times = Counter(root for root, _ in calls if root is not None)
    root = max(times, key=lambda root: times[root], default=None)
    if root is None or times[root] == 1:
        first, drawn = calls[0][1] or 0, sum(one.drawn)
        # A batch of graphs: the module's rows are their nodes.
        return Counted(drawn if 0 < drawn < first and not one.batches else first, calls[0][0])
    rows = [rows or 0 for number, rows in calls if number == root]
    batches = one.batches or batches_of_step
    if sum(rows) == sum(batches):
        return Counted(sum(rows), root)
    called_once = [rows for number, rows in calls if number is not None and times[number] == 1]
    if len(set(rows)) == 1 and rows[0] in (*batches, *called_once, *one.fed):
        return Counted(rows[0], root)
    return Counted(None, root, "several calls")


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
