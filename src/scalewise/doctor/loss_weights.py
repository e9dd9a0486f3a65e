"""With which weight the loss of each micro-batch goes into a step's gradient: all together they should be 1.

And how many targets each of several losses counted, which go into one gradient with equal weights: of the micro-batches
of a step, or of the ranks that average their gradients.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.doctor.accumulation import MicroBatch, Update
from scalewise.records.notes import BackwardNote

CLOSE = 0.05
ALIKE = 0.01
LEAST_GAP = 0.1  # between counts that are called different
WHOLE = 0.01  # how near to a whole number a count must be that is worked out from a weight
ENOUGH = 8  # micro-batches with one weight stand for the others of a long window


@dataclass(frozen=True)
class Weighed:
    """A window whose weights are known."""

    update: Update
    total: float  # over its micro-batches, as applied
    each: float  # of a micro-batch, on average
    applied: float  # what became of the gradient between the last backward pass and the step


def weight_of(micro_batch: MicroBatch) -> float | None:
    """The weight of the micro-batch's mean loss in what backward was called on; None: not known.

    A sum that is divided by the rows is a mean as well; of a single row the two cannot be told apart.
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
    """The window's weights; None where one that matters is not known."""
    applied = update.applied
    known = [weight for weight in map(weight_of, update.micro_batches) if weight is not None]
    if applied is None or not known or any(one.thrown_away for one in update.micro_batches[1:]):
        return None
    if len(known) < update.size and (len(known) < ENOUGH or not alike(known)):
        return None
    mean = statistics.fmean(known)
    return Weighed(update, mean * update.size * applied, mean, applied)


def alike(values: Sequence[float]) -> bool:
    """Whether they differ by 1 % at most."""
    return max(values) - min(values) <= ALIKE * max(map(abs, values))


def close(value: float, to: float, within: float = CLOSE) -> bool:
    """Whether it is as good as that."""
    return abs(value - to) <= within * abs(to)


@dataclass(frozen=True)
class TargetCounts:
    """How many targets each of several losses counted; their weights are equal."""

    counts: tuple[float, ...]

    @property
    def error(self) -> float:
        """Of the weights: by how much one is off, on average."""
        total, size = sum(self.counts), len(self.counts)
        return statistics.fmean(abs(total / (size * count) - 1) for count in self.counts)

    @property
    def uneven(self) -> bool:
        """Whether the counts differ by more than 10 %."""
        return max(self.counts) > (1 + LEAST_GAP) * min(self.counts)


def counts_of_means(notes: Sequence[BackwardNote]) -> TargetCounts | None:
    """Of means with equal weights: what they counted; None where they are something else."""
    if any(note.reduction != "mean" or note.factor is None or not note.elements for note in notes):
        return None
    if not notes or not alike([note.factor or 0.0 for note in notes]):
        return None
    return TargetCounts(tuple(float(note.elements or 0) for note in notes))


def all_sums(notes: Sequence[BackwardNote]) -> bool:
    """Whether every loss is a sum whose weight is known."""
    return all(note.reduction == "sum" and note.factor is not None for note in notes)


def counts_of_sums(notes: Sequence[BackwardNote], scale: float, divisors: Sequence[int]) -> TargetCounts | None:
    """Of sums that are each divided by a count of its own: 1/weight is then a whole number, or a divisor times one."""
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
