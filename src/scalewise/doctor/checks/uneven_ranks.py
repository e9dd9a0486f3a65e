"""Detects ranks with different numbers of batches, so that one waits for a backward pass that another never makes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.inputs import (
    Epoch,
    Replicas,
    epochs,
    line_that_made,
    require_replicas,
    training_loaders,
    training_rows,
    twin,
    with_arguments,
)
from scalewise.doctor.queries.ranks import ENDED_BADLY
from scalewise.records.examination import LoaderRow
from scalewise.records.notes import NOWHERE, BatchNote, CollectiveNote, ExhaustedNote, ForwardNote
from scalewise.units import counted

SHADOW_BYTES = 16  # size of the number that `Join` sums over the ranks at every forward pass

CHECK = Check(
    name="uneven-ranks",
    group="data",
    severity="wrong",
    detects="One rank's loader ends before another's, and the other waits in backward for gradients that never come.",
    why="With gloo the run crashes, with NCCL it stands until the timeout, at the end of an epoch.",
    example="part = torch.utils.data.Subset(dataset, range(rank, len(dataset), world_size))\n"
    "loader = DataLoader(part, batch_size=8)  # 17 batches on rank 0, 16 on rank 1",
    fix="loader = DataLoader(dataset, sampler=DistributedSampler(dataset), drop_last=True)\n"
    "# or, where the parts cannot be made equal:\nwith Join([model]):\n    for x, y in loader:\n        ...",
    needs="a DataLoader on two ranks that average their gradients",
    silent="Different numbers do no harm under Join, or where the loop counts steps and restarts its loader: it "
    "speaks only when the run failed or stood, or when ranks made different numbers of synchronised steps.",
)


@dataclass(frozen=True)
class Uneven:
    """The pass in which the ranks diverged."""

    loader: LoaderRow  # on the rank that ended first
    number: int
    batches: dict[int, int]  # batches of each rank in that pass
    open: frozenset[int]  # ranks whose loader had not ended yet


def examine(case: Case) -> tuple[Finding, ...]:
    """Compares the batches of the last pass of the rank that ended first with those of the others."""
    groups = require_replicas(case)
    if not any(training_rows(rank) for rank in case.ranks):
        raise Abstain("no DataLoader feeds training")
    found = ((group, uneven(case, group)) for group in groups)
    return tuple(_finding(case, group, one) for group, one in found if one is not None)


def uneven(case: Case, group: Replicas) -> Uneven | None:
    """Returns the pass after which a rank had no more batches while others went on; None if that did not happen."""
    members = [rank for rank in case.ranks if rank.rank in group.ranks]
    synchronised = {rank.rank: _synchronised(rank) for rank in members}
    outcome = case.run.outcome
    if len(members) < 2 or outcome is None or len(set(synchronised.values())) < 2 or _cut(case) or _joins(members):
        return None
    if outcome.kind not in (*ENDED_BADLY, "finished", "aborted_at_exit"):
        return None
    short = min(members, key=lambda rank: synchronised[rank.rank])
    if not _is_over(short):
        return None
    found = (_apart(short, row, members) for row in training_rows(short))
    return next((one for one in found if one is not None), None)


def _cut(case: Case) -> bool:
    """Returns True if the run was ended from outside once it had made enough steps: ranks then end where they are."""
    enough = case.run.spec.enough_steps
    return bool(enough) and all(len(rank.windows) >= enough for rank in case.ranks)


def _synchronised(rank: RankCase) -> int:
    """Returns the number of training forward passes whose backward averages gradients; without a wrapper, of steps."""
    forwards = [note for note in rank.all(ForwardNote) if note.trains]
    wrapped = [note for note in forwards if note.wrapper != NOWHERE]
    return sum(note.sync for note in wrapped) if wrapped else len(rank.windows)


def _joins(members: list[RankCase]) -> bool:
    """Returns True if `Join` keeps the ranks together: it sums one number at every forward pass."""
    return any(
        sum(note.operation == "all_reduce" and note.size_bytes <= SHADOW_BYTES for note in rank.all(CollectiveNote))
        >= max(1, _synchronised(rank))
        and _small_before_forward(rank)
        for rank in members
    )


def _small_before_forward(rank: RankCase) -> bool:
    """Returns True if that sum is called by the line that calls the model, as only a wrapper does."""
    lines = {note.place for note in rank.all(ForwardNote) if note.trains and note.wrapper != NOWHERE}
    return any(note.place in lines for note in rank.all(CollectiveNote) if note.size_bytes <= SHADOW_BYTES)


def _is_over(rank: RankCase) -> bool:
    """Returns True if the last note of the loaders that feed training says that one had no more batches."""
    feeding = training_loaders(rank)
    noted = [note for note in rank.notes if isinstance(note, BatchNote | ExhaustedNote) and note.loader in feeding]
    return bool(noted) and isinstance(noted[-1], ExhaustedNote)


def _apart(short: RankCase, row: LoaderRow, members: list[RankCase]) -> Uneven | None:
    passes = _passes(short, row, members)
    own = passes[short.rank]
    for number, epoch in enumerate(own):
        same = {rank: found[number] for rank, found in passes.items() if number < len(found)}
        if any(one.batches > epoch.batches for one in same.values()):
            batches = {rank: one.batches for rank, one in same.items()}
            return Uneven(row, number, batches, frozenset(rank for rank, one in same.items() if not one.exhausted))
    return None


def _passes(short: RankCase, row: LoaderRow, members: list[RankCase]) -> Mapping[int, tuple[Epoch, ...]]:
    mates = {rank.rank: (rank, twin(short, row, rank)) for rank in members}
    return {number: epochs(rank, mate.index) if mate else () for number, (rank, mate) in mates.items()}


def _finding(case: Case, group: Replicas, found: Uneven) -> Finding:
    counts = ", ".join(
        f"rank {rank} {'at least ' if rank in found.open else ''}{counted(count, 'batch')}"
        for rank, count in sorted(found.batches.items())
    )
    outcome = case.run.outcome
    short = min(found.batches.values())
    spare = sum(count - short for count in found.batches.values())
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"The ranks have different numbers of batches in epoch {found.number}: {counts}.",
        evidence=tuple(_evidence(case, group, outcome.sentence if outcome else "")),
        fix=_fix(case, found.loader),
        where=line_that_made(case, found.loader),
        price=Price(spare, "steps", "batches beyond the shortest rank's, which have no partner", "counted"),
        ranks=tuple(sorted(found.batches)),
        steps_seen=len(case.first.windows),
    )


def _evidence(case: Case, group: Replicas, outcome: str) -> Iterator[str]:
    made = ", ".join(f"rank {rank.rank} {_synchronised(rank)}" for rank in case.ranks if rank.rank in group.ranks)
    yield f"synchronised forward passes until the end: {made}"
    if outcome:
        yield f"how the run ended: {outcome}"


def _fix(case: Case, row: LoaderRow) -> str:
    otherwise = "loader = DataLoader(dataset, sampler=DistributedSampler(dataset), drop_last=True, ...)"
    made = with_arguments(line_that_made(case, row), otherwise, drop_last="True")
    return (
        f"{made}  # after giving each rank equally many samples\n"
        "# or, where the parts cannot be made equal:\n"
        "with torch.distributed.algorithms.join.Join([model]):\n    ...  # the training loop"
    )
