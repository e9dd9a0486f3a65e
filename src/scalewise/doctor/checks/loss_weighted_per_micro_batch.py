"""Micro-batches with few counted targets weigh as much as those with many: the step is not that of the whole batch."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.doctor.accumulation import Accumulation, Update, accumulation_of
from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.check import Check
from scalewise.doctor.finding import Finding, Price
from scalewise.doctor.loss_weights import alike
from scalewise.doctor.script_words import text_of
from scalewise.records.notes import ScalerNote

CHECK = Check(
    name="loss-weighted-per-micro-batch",
    group="accumulation",
    severity="wrong",
    detects="Each micro-batch's loss is a mean over its own targets, with equal weights, though their counts differ.",
    why="A token of a short micro-batch counts more than one of a long: the result depends on how the batch was cut.",
    example="""loss = F.cross_entropy(logits, targets, ignore_index=-100)  # a mean over this micro-batch's tokens
(loss / K).backward()""",
    fix="""loss = F.cross_entropy(logits, targets, ignore_index=-100, reduction="sum")
(loss / tokens_of_the_window).backward()""",
    needs="the number of targets that each loss counted, seen in the first windows",
    silent="Counts within 10 % of one another, and single smaller batches at the end of an epoch.",
)
LEAST_GAP = 0.1  # between the counts of a window
OFTEN = 0.5  # of the windows
WHOLE = 0.01  # how near to a whole number a count must be that is worked out from a weight


@dataclass(frozen=True)
class _Counts:
    update: Update
    counts: tuple[float, ...]  # targets of each micro-batch; their weights are equal

    @property
    def error(self) -> float:
        """Of the weights: by how much a micro-batch's is off, on average."""
        total, size = sum(self.counts), len(self.counts)
        return statistics.fmean(abs(total / (size * count) - 1) for count in self.counts)

    @property
    def uneven(self) -> bool:
        return max(self.counts) > (1 + LEAST_GAP) * min(self.counts)


def examine(case: Case) -> tuple[Finding, ...]:
    """Equal weights on unequal counts, in half of the windows or more."""
    found = accumulation_of(case.first)
    if not found.windows:
        return ()
    known = [one for one in (_means(update) or _own_counts(update) for update in found.windows) if one is not None]
    if not known:
        if any(_sums(update) for update in found.windows):
            return ()  # sums that are not divided by counts of their own
        raise Abstain("how many targets a loss counted could not be seen")
    uneven = [one for one in known if one.uneven]
    if len(uneven) < max(2, OFTEN * len(known)):
        return ()
    return (_finding(found, uneven, len(known)),)


def _means(update: Update) -> _Counts | None:
    """Means with equal weights, and what they counted."""
    notes = update.backwards
    if any(note.reduction != "mean" or note.factor is None or not note.elements for note in notes):
        return None
    if len(notes) != update.size or not alike([note.factor or 0.0 for note in notes]):
        return None
    return _Counts(update, tuple(float(note.elements or 0) for note in notes))


def _sums(update: Update) -> bool:
    return all(note.reduction == "sum" and note.factor is not None for note in update.backwards)


def _own_counts(update: Update) -> _Counts | None:
    """Sums that are divided by a count of their own: 1/weight is then a whole number, or K times one."""
    notes = update.backwards
    if not _sums(update) or len(notes) != update.size:
        return None
    scales = [note.scale for note in update.notes if isinstance(note, ScalerNote) and note.scale]
    scale = scales[0] if scales else 1.0
    weights = [(note.factor or 0.0) / scale for note in notes]
    if min(weights) <= 0 or max(weights) <= (1 + LEAST_GAP) * min(weights):
        return None
    for divisor in (update.size, 1):
        counts = [1 / (weight * divisor) for weight in weights]
        if all(count > 1.5 and abs(count - round(count)) < WHOLE for count in counts):
            return _Counts(update, tuple(float(round(count)) for count in counts))
    return None


def _finding(found: Accumulation, uneven: Sequence[_Counts], known: int) -> Finding:
    place = found.rank.place(uneven[0].update.backwards[0])
    worst = max(uneven, key=lambda one: max(one.counts) / min(one.counts))
    error = statistics.median(one.error for one in uneven)
    counts = ", ".join(f"{count:g}" for count in uneven[0].counts[:8])
    return Finding(
        check=CHECK.name,
        severity=CHECK.severity,
        sentence=f"Micro-batches of {min(worst.counts):g} to {max(worst.counts):g} counted targets have equal weights: "
        f"they are off by {error:.0%} on average.",
        evidence=(
            f"targets counted in the micro-batches of one step: {counts}; each weighs 1/{uneven[0].update.size}",
            f"counts differ by more than {LEAST_GAP:.0%} in {len(uneven)} of {known} windows looked at",
        ),
        fix='loss = F.cross_entropy(logits, targets, ..., reduction="sum")\n'
        "tokens = ...  # targets that count, over all micro-batches of the window\n"
        f"(loss / tokens).backward()  # instead of: {text_of(place, 'loss.backward()')}",
        where=place,
        price=Price(error, "share", "error of a micro-batch's weight", "computed from the targets counted in backward"),
        steps_seen=known,
    )
