"""Detects micro-batches that weigh the same though they count few or many targets, unlike in the whole batch."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.accumulation import (
    LEAST_GAP,
    Accumulation,
    TargetCounts,
    Update,
    accumulation_of,
    all_sums,
    counts_of_means,
    counts_of_sums,
)
from scalewise.doctor.queries.source import text_of
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
OFTEN = 0.5  # share of the windows


@dataclass(frozen=True)
class _Counted:
    update: Update
    targets: TargetCounts  # the targets of each micro-batch; their weights are equal


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding if half of the windows or more weigh micro-batches equally though their counts differ."""
    found = accumulation_of(case.first)
    if not found.windows:
        return ()
    looked = [(update, _counts(update)) for update in found.windows]
    known = [_Counted(update, counts) for update, counts in looked if counts is not None]
    if not known:
        if any(all_sums(update.backwards) for update in found.windows):
            return ()  # the losses are sums, not divided by their own counts
        raise Abstain("how many targets a loss counted could not be seen")
    uneven = [one for one in known if one.targets.uneven]
    if len(uneven) < max(2, OFTEN * len(known)):
        return ()
    return (_finding(found, uneven, len(known)),)


def _counts(update: Update) -> TargetCounts | None:
    """Returns how many targets each micro-batch counted, if their weights are equal."""
    notes = update.backwards
    if len(notes) != update.size:
        return None
    scales = [note.scale for note in update.notes if isinstance(note, ScalerNote) and note.scale]
    return counts_of_means(notes) or counts_of_sums(notes, scales[0] if scales else 1.0, (update.size, 1))


def _finding(found: Accumulation, uneven: Sequence[_Counted], known: int) -> Finding:
    place = found.rank.place(uneven[0].update.backwards[0])
    worst = max((one.targets.counts for one in uneven), key=lambda counts: max(counts) / min(counts))
    error = statistics.median(one.targets.error for one in uneven)
    counts = ", ".join(f"{count:g}" for count in uneven[0].targets.counts[:8])
    return Finding(
        check=CHECK.name,
        severity=CHECK.severity,
        sentence=f"Micro-batches of {min(worst):g} to {max(worst):g} counted targets have equal weights: "
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
