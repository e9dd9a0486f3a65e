"""Tells what happens to an incomplete window when the loader has no more batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scalewise.doctor.accumulation import Accumulation, Update, accumulation_of, mostly, of_kind
from scalewise.doctor.case import Abstain, Case
from scalewise.records.notes import ExhaustedNote, Note, ZeroNote

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
