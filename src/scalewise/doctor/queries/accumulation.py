"""Finds gradient accumulation in a rank's notes: micro-batches, the updates that they lead to, and their weights.

An accumulating script calls backward several times per optimizer step, from one place, each time on other data. Not
counted are: two losses of one forward pass, the same data twice (SAM), optimizers that take turns (GAN), tasks fed by
several loaders, and gradients that the optimizer itself asks for (LBFGS).

Here is also what happens to an incomplete window when the loader has no more batches, the weight of each micro-batch's
loss in a step's gradient (the weights should sum to 1), and how many targets each loss counted, if several losses go
into one gradient with equal weights: those of a step's micro-batches, or of the ranks that average their gradients.
"""

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.records.notes import (
    NOWHERE,
    BackwardNote,
    BatchNote,
    ClipNote,
    ExhaustedNote,
    ForwardNote,
    Note,
    ScheduleNote,
    StepNote,
    ZeroNote,
)

MOSTLY = 0.8  # share of the updates: the rest may be the end of an epoch, a warm-up, or a batch that was left out
SomeNote = TypeVar("SomeNote", bound=Note)


def of_kind(notes: Iterable[Note], kind: type[SomeNote]) -> tuple[SomeNote, ...]:
    """Returns the notes of one kind, in order."""
    return tuple(note for note in notes if isinstance(note, kind))


@dataclass(frozen=True)
class MicroBatch:
    """The notes of one micro-batch: all since the previous micro-batch or step, up to its last backward pass."""

    notes: tuple[Note, ...]
    forwards: tuple[ForwardNote, ...]  # training forward passes of the model

    @property
    def backwards(self) -> tuple[BackwardNote, ...]:
        """The backward passes: one, or several when the micro-batch has several losses."""
        return of_kind(self.notes, BackwardNote)

    @property
    def thrown_away(self) -> ZeroNote | None:
        """The call that zeroed existing gradients before this micro-batch's first backward pass, or None."""
        until = self.notes.index(self.backwards[0])
        return next((note for note in of_kind(self.notes[:until], ZeroNote) if note.had_gradients), None)

    @property
    def batches(self) -> tuple[BatchNote, ...]:
        """The batches that were drawn from loaders."""
        return of_kind(self.notes, BatchNote)

    @property
    def syncs(self) -> bool:
        """True if the backward pass of this micro-batch reduces gradients over ranks."""
        return any(note.sync and note.wrapper != NOWHERE for note in self.forwards)

    @property
    def lines(self) -> tuple[frozenset[int], frozenset[int]]:
        """The lines that called forward and backward."""
        return frozenset(note.place for note in self.forwards), frozenset(note.place for note in self.backwards)


@dataclass(frozen=True)
class Update:
    """Several micro-batches and the step that applies their gradients, or the steps of several optimizers at once."""

    number: int
    micro_batches: tuple[MicroBatch, ...]
    tail: tuple[Note, ...]  # after the last backward pass, before the first step
    steps: tuple[StepNote, ...] = ()  # empty for the notes after the last step

    @property
    def size(self) -> int:
        """The number of micro-batches."""
        return len(self.micro_batches)

    @property
    def backwards(self) -> tuple[BackwardNote, ...]:
        """The backward passes of all its micro-batches."""
        return tuple(note for micro_batch in self.micro_batches for note in micro_batch.backwards)

    @property
    def forward(self) -> ForwardNote | None:
        """The first forward pass of the model; None if none was seen."""
        return next((note for one in self.micro_batches for note in one.forwards), None)

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes of all its micro-batches and of the tail, without the steps."""
        return (*(note for one in self.micro_batches for note in one.notes), *self.tail)

    @property
    def applied(self) -> float | None:
        """The size of the gradient at the step, before clipping, relative to what the last backward pass left."""
        step = self.steps[0] if self.steps else None
        if step is not None and step.ratio is not None and not step.skipped:
            return step.ratio  # this ratio is measured before clipping
        return next((note.ratio for note in of_kind(self.tail, ClipNote) if note.ratio is not None), None)


@dataclass(frozen=True)
class Accumulation:
    """The gradient accumulation of one rank."""

    rank: RankCase
    updates: tuple[Update, ...]
    rest: Update  # after the last step
    windows: tuple[Update, ...] = ()  # updates of two micro-batches or more; empty: the script does not accumulate
    size: int = 1  # the most common number of micro-batches per update
    loaders: frozenset[int] = frozenset()  # the loaders that feed the training; empty: no loader does
    shared_batch: bool = False  # several micro-batches are made of one batch of a loader

    @property
    def steady(self) -> bool:
        """True if nearly all updates have the same number of micro-batches."""
        return mostly(self.updates, lambda update: update.size == self.size)


def mostly(updates: Sequence[Update], holds: Callable[[Update], bool], share: float = MOSTLY) -> bool:
    """Returns True if `holds` is true of at least this share of the updates; False if there are none."""
    return bool(updates) and sum(map(holds, updates)) >= share * len(updates)


def updates_of(rank: RankCase) -> tuple[tuple[Update, ...], Update]:
    """Returns the rank's updates, and the notes that are left after its last step."""
    is_model = _is_model(rank.notes)
    forwards_known = any(map(is_model, rank.notes))
    updates: list[Update] = []
    made: list[MicroBatch] = []
    held: list[Note] = []
    for note in rank.notes:
        if isinstance(note, StepNote):
            if made:
                updates.append(Update(len(updates), tuple(made), tuple(held), (note,)))
                made, held = [], []
            elif updates:  # a second optimizer steps on the same gradients
                updates[-1] = replace(updates[-1], steps=(*updates[-1].steps, note))
            continue
        held.append(note)
        if isinstance(note, BackwardNote):
            new = any(is_model(one) if forwards_known else isinstance(one, BatchNote) for one in held)
            if new or not made:
                made.append(MicroBatch(tuple(held), tuple(one for one in of_kind(held, ForwardNote) if is_model(one))))
            else:  # a second loss of the same forward pass
                made[-1] = replace(made[-1], notes=(*made[-1].notes, *held))
            held = []
    return tuple(updates), Update(len(updates), tuple(made), tuple(held))


def _is_model(notes: Sequence[Note]) -> Callable[[Note], bool]:
    """Returns a test that tells the model's forward passes from those of losses and other modules called directly."""
    training = [note for note in of_kind(notes, ForwardNote) if note.trains]
    wrapped = any(note.wrapper != NOWHERE or note.bypassed != NOWHERE for note in training)
    first = training[0].module if training else ""

    def is_model(note: Note) -> bool:
        if not isinstance(note, ForwardNote) or not note.trains:
            return False
        return (note.wrapper != NOWHERE or note.bypassed != NOWHERE) if wrapped else note.module == first

    return is_model


def accumulation_of(rank: RankCase) -> Accumulation:
    """Returns how this rank accumulates; abstains if its backward passes have another purpose."""
    updates, rest = updates_of(rank)
    if any(note.closure for note in rank.all(BackwardNote)):
        raise Abstain("the optimizer asks for gradients itself (a closure)")
    if len(updates) < 2:
        raise Abstain(f"needs 2 optimizer steps after backward passes, saw {len(updates)}")
    require_one_optimizer(updates)
    windows = tuple(update for update in updates if update.size > 1)
    found = Accumulation(rank, updates, rest)
    if len(windows) < len(updates) / 2:
        return found
    _require_other_data(windows)
    loaders, shared = _feeding(updates)
    _require_one_task(windows, one_batch_each=bool(loaders) and not shared)
    size = Counter(update.size for update in windows).most_common(1)[0][0]
    return replace(found, windows=windows, size=size, loaders=loaders, shared_batch=shared)


def require_one_optimizer(updates: Sequence[Update]) -> None:
    """Abstains if optimizers take turns. Optimizers that follow each other, as in stages of a training, are allowed."""
    stepped = [frozenset(step.optimizer for step in update.steps) for update in updates]
    switches = sum(one != other for one, other in itertools.pairwise(stepped))
    if switches > 0.1 * len(updates):
        raise Abstain("several optimizers step in turn: whose gradients a backward pass is for cannot be told")


def _require_other_data(windows: Sequence[Update]) -> None:
    """Abstains if micro-batches of a step see the same input, unless the whole run has only one input."""
    again = known = 0
    inputs: set[str] = set()
    for window in windows:
        before: set[str] = set()
        for micro_batch in window.micro_batches:
            own = {note.digest for note in micro_batch.forwards if note.digest is not None}
            if before and own:
                known += 1
                again += own <= before
            before |= own
        inputs |= before
    if len(inputs) == 1:
        if not mostly(windows, lambda update: len({one.lines for one in update.micro_batches}) == 1):
            raise Abstain("every pass sees the same input, from several lines: what they are for cannot be told")
    elif again > (1 - MOSTLY) * known:
        raise Abstain("the backward passes of a step see the same data: they are no micro-batches")
    elif not known and not mostly(windows, lambda update: all(one.batches for one in update.micro_batches)):
        raise Abstain("whether the backward passes of a step see different data is not known")


def _feeding(updates: Sequence[Update]) -> tuple[frozenset[int], bool]:
    """Returns the loaders that the model is fed from, and True if one batch of them makes several micro-batches.

    A script may make a loader for each epoch; loaders that it returns to again and again feed several tasks.
    """
    fed = [one.batches[-1].loader for update in updates for one in update.micro_batches if one.batches]
    if not fed:
        return frozenset(), False
    in_turn = [loader for loader, _ in itertools.groupby(fed)]
    if len(in_turn) - len(set(in_turn)) > (1 - MOSTLY) * len(updates):
        raise Abstain("several loaders feed the backward passes of a step: they may be several tasks")
    # A single batch of an evaluation, drawn right before a forward pass, does not make its loader one of the training.
    counts = Counter(fed)
    loaders = frozenset(loader for loader in counts if counts[loader] >= 0.2 * max(counts.values()))
    asked = sum(note.loader in loaders for update in updates for note in of_kind(update.notes, BatchNote))
    return loaders, asked < 0.75 * sum(update.size for update in updates)


def _require_one_task(windows: Sequence[Update], one_batch_each: bool) -> None:
    """Abstains if backward is called from several lines, as for several losses; the last micro-batch may differ."""

    def one_task(update: Update) -> bool:
        lines = Counter(micro_batch.lines for micro_batch in update.micro_batches)
        return len(lines) == 1 or (update.size > 2 and lines.most_common(1)[0][1] >= update.size - 1)

    if not one_batch_each and not mostly(windows, one_task):
        raise Abstain("backward is called from several lines in a step: they may be several losses")


def scheduled(update: Update) -> int:
    """Returns in how many of the update's micro-batches the busiest learning-rate scheduler stepped.

    Several steps at one place count as one: some libraries make one per rank, to count the batches of all ranks.
    """
    stretches = (*(one.notes for one in update.micro_batches), update.tail)
    stepped = (frozenset(note.scheduler for note in of_kind(notes, ScheduleNote)) for notes in stretches)
    return max(Counter(itertools.chain.from_iterable(stepped)).values(), default=0)


# stepped: applied before the next epoch. dropped: thrown away. leaked: added to the next epoch's first window, which
# becomes too large. carried: the next epoch completes the window, as a loop that counts through epochs does.
# left: the script ended before they were applied.
Fate = Literal["stepped", "dropped", "leaked", "carried", "left"]


@dataclass(frozen=True)
class EpochEnd:
    """The end of an epoch with gradients that no step had used yet."""

    micro_batches: int  # micro-batches since the last step
    fate: Fate
    update: Update  # the update that contains the epoch's end
    zero: ZeroNote | None = None  # the call that threw them away


def epoch_ends(found: Accumulation, finished: bool) -> tuple[EpochEnd, ...]:
    """Returns the epochs' ends that fall within a window, in order; `finished`: the script ran to its own end."""
    return tuple(end for update in (*found.updates, found.rest) for end in _ends(found, update, finished))


def ends_of(case: Case) -> tuple[Accumulation, tuple[EpochEnd, ...]]:
    """Returns rank 0's accumulation and its epochs' ends; abstains if the script accumulates and no end was seen."""
    found = accumulation_of(case.first)
    if not found.windows:
        return found, ()
    if not found.loaders:
        raise Abstain("the batches come from no DataLoader: where an epoch ends is not known")
    if not epochs_ended(found):
        raise Abstain("the loader never came to its end")
    return found, epoch_ends(found, ran_to_its_end(case))


def _ends(found: Accumulation, update: Update, finished: bool) -> Iterator[EpochEnd]:
    for index, micro_batch in enumerate(update.micro_batches):
        if 0 < index < found.size and _exhausted(micro_batch.notes, found.loaders):
            zero = micro_batch.thrown_away
            if zero is not None:
                yield EpochEnd(index, "dropped", update, zero)
            elif update.steps:
                yield EpochEnd(index, "leaked" if update.size > found.size else "carried", update)
    if 0 < update.size < found.size and _exhausted(update.tail, found.loaders):
        zeros = [note for note in of_kind(update.tail, ZeroNote) if note.had_gradients]
        if update.steps:
            yield EpochEnd(update.size, "stepped", update)
        elif zeros:
            yield EpochEnd(update.size, "dropped", update, zeros[0])
        elif finished:
            yield EpochEnd(update.size, "left", update)


def _exhausted(notes: tuple[Note, ...], loaders: frozenset[int]) -> bool:
    return any(note.loader in loaders for note in of_kind(notes, ExhaustedNote))


def whole_windows_agree(found: Accumulation) -> bool:
    """Returns True if nearly all windows that contain no epoch's end have one size."""
    inside = [update for update in found.updates if not of_kind(update.notes, ExhaustedNote)]
    return mostly(inside, lambda update: update.size == found.size)


def epochs_ended(found: Accumulation) -> int:
    """Returns how often the loaders that feed training came to their end."""
    return sum(note.loader in found.loaders for note in found.rank.all(ExhaustedNote))


def micro_batches(found: Accumulation) -> int:
    """Returns the number of micro-batches in the run."""
    return sum(update.size for update in (*found.updates, found.rest))


def ran_to_its_end(case: Case) -> bool:
    """Returns True if the script ended the run by itself, without an error."""
    outcome = case.run.outcome
    return outcome is not None and outcome.kind in ("finished", "aborted_at_exit") and case.first.failure is None


CLOSE = 0.05
ALIKE = 0.01
LEAST_GAP = 0.1  # relative difference from which counts are called different
WHOLE = 0.01  # largest distance from a whole number of a count that is computed from a weight
ENOUGH = 8  # so many micro-batches with equal weights represent all those of a long window


@dataclass(frozen=True)
class Weighed:
    """A window whose weights are known."""

    update: Update
    total: float  # sum of the weights of its micro-batches, as applied
    each: float  # mean weight of a micro-batch
    applied: float  # factor by which the gradient changed between the last backward pass and the step


def weight_of(micro_batch: MicroBatch) -> float | None:
    """Returns the weight of the micro-batch's mean loss in the tensor that backward was called on; None if not known.

    A sum that is divided by the number of rows counts as a mean as well; with a single row the two cannot be
    distinguished.
    """
    if len(micro_batch.backwards) != 1:
        return None
    note = micro_batch.backwards[0]
    if note.factor is None:
        return None
    if note.reduction == "mean":
        return note.factor
    rows = micro_batch.forwards[0].rows if len(micro_batch.forwards) == 1 else None
    return note.factor * rows if note.reduction == "sum" and rows is not None and rows > 1 else None


def weighed(update: Update) -> Weighed | None:
    """Returns the window's weights; None if one that matters is not known."""
    applied = update.applied
    known = [weight for weight in map(weight_of, update.micro_batches) if weight is not None]
    if applied is None or not known or any(one.thrown_away for one in update.micro_batches[1:]):
        return None
    if len(known) < update.size and (len(known) < ENOUGH or not alike(known)):
        return None
    mean = statistics.fmean(known)
    return Weighed(update, mean * update.size * applied, mean, applied)


def alike(values: Sequence[float]) -> bool:
    """Returns True if the values differ by 1 % at most."""
    return max(values) - min(values) <= ALIKE * max(map(abs, values))


def close(value: float, to: float, within: float = CLOSE) -> bool:
    """Returns True if the value is within this relative distance of the other."""
    return abs(value - to) <= within * abs(to)


@dataclass(frozen=True)
class TargetCounts:
    """The number of targets that each of several losses with equal weights counted."""

    counts: tuple[float, ...]

    @property
    def error(self) -> float:
        """The relative error of a loss's weight, on average."""
        total, size = sum(self.counts), len(self.counts)
        return statistics.fmean(abs(total / (size * count) - 1) for count in self.counts)

    @property
    def uneven(self) -> bool:
        """True if the counts differ by more than 10 %."""
        return max(self.counts) > (1 + LEAST_GAP) * min(self.counts)


def counts_of_means(notes: Sequence[BackwardNote]) -> TargetCounts | None:
    """Returns the counts of losses that are means with equal weights; None if they are something else."""
    if any(note.reduction != "mean" or note.factor is None or not note.elements for note in notes):
        return None
    if not notes or not alike([note.factor or 0.0 for note in notes]):
        return None
    return TargetCounts(tuple(float(note.elements or 0) for note in notes))


def all_sums(notes: Sequence[BackwardNote]) -> bool:
    """Returns True if every loss is a sum whose weight is known."""
    return all(note.reduction == "sum" and note.factor is not None for note in notes)


def counts_of_sums(notes: Sequence[BackwardNote], scale: float, divisors: Sequence[int]) -> TargetCounts | None:
    """Returns the counts of losses that are sums, each divided by its own count; None if they are something else.

    The inverse of each weight is then a whole number, or a divisor times one.
    """
    if not notes or not all_sums(notes):
        return None
    weights = [(note.factor or 0.0) / scale for note in notes]
    if min(weights) <= 0 or max(weights) <= (1 + LEAST_GAP) * min(weights):
        return None
    for divisor in divisors:
        counts = [1 / (weight * divisor) for weight in weights]
        if all(count > 1.5 and abs(count - round(count)) < WHOLE for count in counts):
            return TargetCounts(tuple(float(round(count)) for count in counts))
    return None
