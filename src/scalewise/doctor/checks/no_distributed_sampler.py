"""Detects ranks that each go through the whole dataset, in an order of their own."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.checks.same_data import sharding_fix
from scalewise.doctor.finding import Check, Finding, Price, Replayed
from scalewise.doctor.queries.inputs import (
    Replicas,
    epochs,
    line_that_made,
    replica_groups,
    require_own_batches,
    rows_fed,
    same_inputs,
    training_lines,
    twin,
)
from scalewise.records.examination import LoaderRow
from scalewise.records.spec import Change
from scalewise.units import named_ranks

LEAST_SHARED = 3  # shared rows: a single one may be a sample that the dataset contains twice
LEAST_OF_EXPECTED = 0.25  # share of the rows that two random orders of one dataset have in common
REPEATED_SHARE = 0.25  # a rank that draws its own rows again draws with replacement, or its data repeats
LEAST_OF_ROWS = 0.1  # share of the rows, for a stream whose length is not known

CHECK = Check(
    name="no-distributed-sampler",
    group="data",
    severity="wrong",
    detects="Ranks that average their gradients each draw the whole dataset, so that all meet the same samples.",
    why="An epoch takes as many steps as on one rank: every sample is trained on N times per epoch, the learning-rate "
    "schedule and the number of epochs no longer mean what they say, and N ranks save no time.",
    example="torch.manual_seed(rank)\nloader = DataLoader(dataset, batch_size=32, shuffle=True)  # on every rank",
    fix="sampler = DistributedSampler(dataset, shuffle=True)\n"
    "loader = DataLoader(dataset, batch_size=32, sampler=sampler)\n"
    "for epoch in range(epochs):\n    sampler.set_epoch(epoch)",
    needs="digests of the rows that two ranks were fed from a DataLoader, enough of them to meet again by chance",
    silent="Datasets that are split before they reach the loader share no rows. Samplers that draw with replacement "
    "and data whose rows repeat on one rank say nothing. Random augmentation hides equal rows: then it abstains.",
)


@dataclass(frozen=True)
class SharedRows:
    """The rows that two ranks have in common in the first pass over their loaders."""

    ranks: tuple[int, int]
    shared: int  # different rows that both drew
    seen: int  # different rows that one of them drew (the smaller number)
    expected: float | None  # shared rows if both drew from the whole dataset; None: its size is not known
    repeated: int  # rows that one rank drew twice


def examine(case: Case) -> tuple[Finding, ...]:
    """Looks for rows that two ranks drew, if each rank draws as many as the dataset has."""
    groups = require_own_batches(case)
    found: list[Finding] = []
    reasons: list[str] = []
    for group in groups:
        if same_inputs(case, group):
            continue  # the ranks are fed the same batches, which another check reports
        for row in training_lines(case.first):
            if not draws_all(row):
                continue
            overlap = _overlap(case, group, row)
            if overlap is None or (overlap.expected is not None and overlap.expected < LEAST_SHARED):
                reasons.append("too few rows of two ranks could be compared")
            elif _shows(overlap):
                found.append(_finding(case, row, group, overlap))
            elif overlap.shared == 0 and overlap.seen and row.drawn is not None and _one_size(case, row):
                reasons.append("each rank draws as many samples as there are, but no row is recognised on another rank")
    if reasons and not found:
        raise Abstain(reasons[0])
    return tuple(found)


def draws_all(row: LoaderRow) -> bool:
    """Returns True if a rank goes through the whole dataset, as far as its sampler says."""
    return not row.knows_ranks and (row.iterable or (row.drawn is not None and row.drawn == row.samples))


def _one_size(case: Case, row: LoaderRow) -> bool:
    """Returns True if all ranks' datasets have one size. Different sizes show that the dataset was split."""
    sizes = {mate.samples for rank in case.ranks if (mate := twin(case.first, row, rank)) is not None}
    return len(sizes) == 1


def _overlap(case: Case, group: Replicas, row: LoaderRow) -> SharedRows | None:
    members = [rank for rank in case.ranks if rank.rank in group.ranks]
    rows = [(rank, mate) for rank in members if (mate := twin(case.first, row, rank)) is not None and draws_all(mate)]
    overlaps = [overlap_of(rows[0], other) for other in rows[1:]]
    return max((one for one in overlaps if one.seen), key=lambda one: one.shared, default=None)


def overlap_of(one: tuple[RankCase, LoaderRow], other: tuple[RankCase, LoaderRow]) -> SharedRows:
    """Returns the rows that both ranks drew in their first pass; over several passes all rows are drawn anyway."""
    first, second = (Counter(_first_rows(rank, row)) for rank, row in (one, other))
    size = one[1].samples
    return SharedRows(
        ranks=(one[0].rank, other[0].rank),
        shared=len(first.keys() & second.keys()),
        seen=min(len(first), len(second)),
        expected=len(first) * len(second) / size if size and not one[1].iterable else None,
        repeated=sum(count > 1 for met in (first, second) for count in met.values()),
    )


def _first_rows(rank: RankCase, row: LoaderRow) -> list[str]:
    passes = epochs(rank, row.index)
    return rows_fed(passes[0].fed) if passes else []


def _shows(overlap: SharedRows) -> bool:
    if overlap.shared < LEAST_SHARED or overlap.repeated > REPEATED_SHARE * overlap.shared:
        return False
    if overlap.expected is None:
        return overlap.shared >= LEAST_OF_ROWS * overlap.seen
    return overlap.shared >= LEAST_OF_EXPECTED * overlap.expected


def _finding(case: Case, row: LoaderRow, group: Replicas, overlap: SharedRows) -> Finding:
    count = len(group.ranks)
    amount = f"all {row.drawn} samples" if row.drawn is not None else "the whole stream"
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"Each of the {count} ranks draws {amount} in an epoch: every sample is trained on {count} times.",
        evidence=tuple(_evidence(row, overlap, count)),
        fix=sharding_fix(case, row),
        where=line_that_made(case, row),
        price=Price(
            (count - 1) / count,
            "share",
            "each rank's steps in an epoch that other ranks make on the same samples",
            "computed from the samples that each rank draws",
        ),
        steps_seen=len(case.first.windows),
        change=None if row.iterable else Change("shard_data"),
    )


def _evidence(row: LoaderRow, overlap: SharedRows, count: int) -> Iterator[str]:
    yield (
        f"{named_ranks(overlap.ranks)} met {overlap.shared} same rows among the first {overlap.seen} different rows "
        f"of one pass" + ("" if overlap.expected is None else f" ({overlap.expected:.0f} expected by chance)")
    )
    if row.drawn is not None:
        yield f"{row.sampler} draws {row.drawn} of {row.samples} samples on each rank; {row.drawn // count} would do"


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Marks the finding as proved if no two ranks draw the same row once the data is sharded."""
    if replayed.trouble or not replayed.applied:
        return finding
    left = [
        overlap
        for group in replica_groups(replayed.fixed)
        for row in training_lines(replayed.fixed.first)
        if (overlap := _overlap(replayed.fixed, group, row)) is not None and _shows(overlap)
    ]
    if left:
        return finding
    before, after = (_batches(one) for one in (replayed.plain, replayed.fixed))
    counts = f": {before} batches an epoch become {after}" if before and after and after < before else ""
    words = f"with the dataset sharded by a DistributedSampler no row is met by two ranks{counts}"
    return replace(finding, proof="replayed", evidence=(*finding.evidence, words))


def _batches(case: Case) -> int | None:
    """Returns the number of batches in the first complete pass of rank 0, or None."""
    passes = [one for row in training_lines(case.first) for one in epochs(case.first, row.index)]
    return next((one.batches for one in passes if one.exhausted), None)
