"""With which weight the loss of each micro-batch goes into a step's gradient: all together they should be 1."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.doctor.accumulation import MicroBatch, Update

CLOSE = 0.05
ALIKE = 0.01
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
