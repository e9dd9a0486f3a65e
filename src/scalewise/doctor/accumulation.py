"""Finds gradient accumulation in a rank's notes: micro-batches and the updates that they lead to.

An accumulating script calls backward several times per optimizer step, from one place, each time on other data. Not
counted are: two losses of one forward pass, the same data twice (SAM), optimizers that take turns (GAN), tasks fed by
several loaders, and gradients that the optimizer itself asks for (LBFGS).
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from scalewise.doctor.case import Abstain, RankCase
from scalewise.records.notes import (
    NOWHERE,
    BackwardNote,
    BatchNote,
    ClipNote,
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
