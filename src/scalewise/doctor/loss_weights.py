"""Computes the weight of each micro-batch's loss in a step's gradient; the weights should sum to 1.

Also computes how many targets each loss counted, if several losses go into one gradient with equal weights: those of
the
micro-batches of a step, or of the ranks that average their gradients.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.doctor.accumulation import MicroBatch, Update
from scalewise.records.notes import BackwardNote

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
