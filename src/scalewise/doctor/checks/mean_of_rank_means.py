"""Detects ranks that average losses over their own targets and weigh the same though their counts differ."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price, Replayed
from scalewise.doctor.queries.accumulation import (
    LEAST_GAP,
    TargetCounts,
    Update,
    alike,
    all_sums,
    close,
    counts_of_means,
    counts_of_sums,
    require_one_optimizer,
    updates_of,
)
from scalewise.doctor.queries.inputs import BY_HAND, Replicas, replica_groups
from scalewise.doctor.queries.source import text_of
from scalewise.records.notes import BackwardNote, ScalerNote
from scalewise.records.spec import Change

CHECK = Check(
    name="mean-of-rank-means",
    group="ddp",
    severity="wrong",
    detects="Every rank's loss is a mean over its own targets, and the ranks' gradients are averaged with equal "
    "weights, though their counts differ.",
    why="A token of a rank with few tokens counts more than one of a rank with many: the gradient is not that of the "
    "whole batch, and depends on how the batch was dealt out to ranks.",
    example="loss = F.cross_entropy(logits, targets, ignore_index=-100)  # a mean over this rank's tokens\n"
    "loss.backward()  # DistributedDataParallel averages the ranks",
    fix='loss = F.cross_entropy(logits, targets, ignore_index=-100, reduction="sum")\n'
    "tokens = (targets != -100).sum()\ndist.all_reduce(tokens)  # of all ranks\n"
    "(loss * dist.get_world_size() / tokens).backward()",
    needs="the number of targets that the loss of each of two ranks counted, in three steps or more",
    silent=f"Counts within {LEAST_GAP:.0%} of one another, uneven ones in fewer than half of the steps, and losses "
    "that are weighted by their counts. Gradients that are averaged by hand may be weighted there.",
)
LEAST = 3  # steps
OFTEN = 0.5  # share of the steps


@dataclass(frozen=True)
class _Step:
    """The notes of one step on all ranks of a group."""

    notes: tuple[BackwardNote, ...]  # the first backward pass of the step on each rank
    targets: TargetCounts
    plain: bool  # the loss is a mean with one backward pass on each rank, so that a replay can weigh it


def examine(case: Case) -> tuple[Finding, ...]:
    """Compares the ranks of each group that averages gradients, step by step."""
    groups = [group for group in replica_groups(case) if group.how != BY_HAND]
    if not groups:
        raise Abstain("no wrapper averages the gradients of two ranks")
    for group in groups:
        members = [rank for rank in case.ranks if rank.rank in group.ranks]
        if len(members) < 2:
            raise Abstain("needs the notes of two ranks")
        known = _steps(members)
        uneven = [one for one in known if one.targets.uneven]
        if len(uneven) >= max(LEAST, OFTEN * len(known)):
            return (_finding(members[0], group, uneven, len(known)),)
    return ()


def _steps(members: Sequence[RankCase]) -> list[_Step]:
    """Returns the steps for which it is known how many targets each rank's loss counted."""
    updates = [updates_of(rank)[0] for rank in members]
    for one in updates:
        require_one_optimizer(one)
    steps = list(zip(*updates, strict=False))
    known = [one for one in map(_counted, steps) if one is not None]
    if len(known) < LEAST and not any(map(_weighted, steps)):
        raise Abstain(f"how many targets the losses of {LEAST} steps counted could not be seen on every rank")
    return known


def _weighted(step: Sequence[Update]) -> bool:
    """Returns True if the losses are sums that no rank divides, or means whose weights differ between ranks."""
    notes = [note for update in step for note in update.backwards]
    factors = [note.factor for note in notes if note.factor is not None]
    return all_sums(notes) or (len(factors) == len(notes) and not alike(factors))


def _counted(step: Sequence[Update]) -> _Step | None:
    if any(len(update.backwards) != update.size for update in step):
        return None  # the ranks have several losses
    firsts = tuple(update.backwards[0] for update in step)
    weights = [[note.factor or 0.0 for note in update.backwards] for update in step]
    if not all(alike(one) for one in weights):
        return None
    size = step[0].size
    scales = [note.scale for note in step[0].notes if isinstance(note, ScalerNote) and note.scale]
    sums = counts_of_sums(firsts, scales[0] if scales else 1.0, (1, size))
    if sums is not None:
        return _Step(firsts, sums, plain=False)
    if any(counts_of_means(update.backwards) is None for update in step) or counts_of_means(firsts) is None:
        return None
    totals = tuple(float(sum(note.elements or 0 for note in update.backwards)) for update in step)
    return _Step(firsts, TargetCounts(totals), plain=size == 1)


def _finding(rank: RankCase, group: Replicas, uneven: Sequence[_Step], known: int) -> Finding:
    place = rank.place(uneven[0].notes[0])
    worst = max((one.targets.counts for one in uneven), key=lambda counts: max(counts) / min(counts))
    error = statistics.median(one.targets.error for one in uneven)
    counts = ", ".join(f"{count:g}" for count in uneven[0].targets.counts[:8])
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"Ranks that count {min(worst):g} to {max(worst):g} targets have equal weights: "
        f"they are off by {error:.0%} on average.",
        evidence=(
            f"targets counted by the ranks in one step: {counts}; each rank weighs 1/{len(group.ranks)}",
            f"counts differ by more than {LEAST_GAP:.0%} in {len(uneven)} of {known} steps looked at",
            f"these ranks average their gradients by {group.how}",
        ),
        fix='loss = F.cross_entropy(logits, targets, ..., reduction="sum")\n'
        "tokens = ...  # targets of this rank that count, as a tensor\ndist.all_reduce(tokens)\n"
        f"(loss * dist.get_world_size() / tokens).backward()  # instead of: {text_of(place, 'loss.backward()')}",
        where=place,
        price=Price(error, "share", "error of a rank's weight", "computed from the targets counted in backward"),
        ranks=group.ranks,
        steps_seen=known,
        change=Change("weigh_ranks") if all(one.plain for one in uneven) else None,
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Adds how the first step's gradient changes with ranks weighted by their targets, if both runs began alike."""
    pair = replayed.gradients
    if replayed.trouble or not replayed.applied or pair is None or not pair.fixed_norm:
        return finding
    if not _began_alike(replayed):
        words = "a replay cannot show the gradient: the script begins with other weights or data every time"
        return replace(finding, evidence=(*finding.evidence, words))
    apart = max(abs(pair.fixed_projection - pair.plain_projection), abs(pair.fixed_norm - pair.plain_norm))
    words = (
        f"with each rank weighted by its targets, the first step's gradient changes by {apart / pair.fixed_norm:.1%} "
        f"of its length or more (norm {pair.fixed_norm:.4g}, not {pair.plain_norm:.4g}; projection on a fixed "
        f"direction {pair.fixed_projection:.4g}, not {pair.plain_projection:.4g})"
    )
    return replace(finding, proof="replayed", evidence=(*finding.evidence, words))


def _began_alike(replayed: Replayed) -> bool:
    """Returns True if the first loss is the plain one times the weight of its rank, on every rank."""
    firsts = [
        [next(iter(rank.all(BackwardNote)), None) for rank in side.ranks] for side in (replayed.plain, replayed.fixed)
    ]
    pairs = list(zip(*firsts, strict=False))
    if not pairs or any(one is None or not one.loss or not one.elements for pair in pairs for one in pair):
        return False
    total = sum(plain.elements or 0 for plain, _ in pairs if plain is not None)
    return all(
        plain.elements == fixed.elements
        and close((fixed.loss or 0.0) / (plain.loss or 1.0), (plain.elements or 0) * len(pairs) / total, 1e-3)
        for plain, fixed in pairs
        if plain is not None and fixed is not None
    )
