"""Detects ranks that all train on the same batches, so that more ranks learn nothing more."""

from collections.abc import Iterator
from dataclasses import replace

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Price, Replayed
from scalewise.doctor.queries.inputs import (
    LEAST_BATCHES,
    Replicas,
    SameInputs,
    comparable_inputs,
    dataset_name,
    line_that_made,
    replica_groups,
    require_own_batches,
    same_inputs,
    training_rows,
    with_arguments,
)
from scalewise.records.examination import LoaderRow
from scalewise.records.spec import Change
from scalewise.units import named_ranks

CHECK = Check(
    name="same-data",
    group="data",
    severity="wrong",
    detects="Ranks that average their gradients are fed the very same batches.",
    why="The average of equal gradients is the gradient of one rank: N ranks do N times the work for the result of "
    "one, and an epoch is gone through N times by everyone.",
    example="torch.manual_seed(0)\nloader = DataLoader(dataset, batch_size=32, shuffle=True)  # on every rank",
    fix="sampler = DistributedSampler(dataset, shuffle=True)\n"
    "loader = DataLoader(dataset, batch_size=32, sampler=sampler)\n"
    "for epoch in range(epochs):\n    sampler.set_epoch(epoch)",
    needs=f"digests of at least {LEAST_BATCHES} training inputs of two ranks that average their gradients",
    silent="Ranks of a tensor- or pipeline-parallel group are not compared: they must see the same data. Nor are ranks "
    "that send each other parts of their activations in forward (tables of embeddings on one rank each). One tensor "
    "that is used in every step is a benchmark, and only noted.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Compares the digests of the first training inputs within each data-parallel group."""
    groups = require_own_batches(case)
    if all(comparable_inputs(case, group) < LEAST_BATCHES for group in groups):
        raise Abstain(f"needs {LEAST_BATCHES} training inputs of two ranks")
    return tuple(_findings(case, groups))


def _findings(case: Case, groups: tuple[Replicas, ...]) -> Iterator[Finding]:
    told: set[tuple[int, ...]] = set()
    for group in groups:
        for same in same_inputs(case, group):
            if same.ranks not in told:
                told.add(same.ranks)
                yield _finding(case, group, same)


def _finding(case: Case, group: Replicas, same: SameInputs) -> Finding:
    loader = next(iter(training_rows(case.first)), None)
    where = line_that_made(case, loader) or case.first.place(same.first)
    names = named_ranks(same.ranks)
    fixed = same.distinct == 1
    if fixed:
        sentence = f"{names} train on one and the same tensor in every step, as a benchmark does."
    else:
        sentence = f"{names} train on the same data: {same.batches} of {same.batches} batches were identical."
    return Finding(
        check=CHECK.name,
        severity="note" if fixed else "wrong",
        sentence=sentence,
        evidence=tuple(_evidence(group, same, loader)),
        fix=sharding_fix(case, loader),
        where=where,
        price=None if fixed else _price(same),
        ranks=same.ranks,
        steps_seen=same.batches,
        change=Change("shard_data") if loader is not None and not fixed else None,
    )


def _evidence(group: Replicas, same: SameInputs, loader: LoaderRow | None) -> Iterator[str]:
    yield (
        f"the first {same.batches} training inputs are equal on {named_ranks(same.ranks, small=True)}, "
        f"{same.distinct} different among themselves"
    )
    yield f"these ranks average their gradients by {group.how}"
    if loader is not None and not loader.knows_ranks:
        drawn = "" if loader.drawn is None else f" and draws {loader.drawn} samples on each rank"
        yield f"the loader's sampler, {loader.sampler}, knows nothing of ranks{drawn}"


def _price(same: SameInputs) -> Price:
    count = len(same.ranks)
    return Price((count - 1) / count, "share", "the work of these ranks that is repeated", "computed from equal inputs")


def sharding_fix(case: Case, loader: LoaderRow | None) -> str:
    """Returns how each rank gets its own part of the data: with a DistributedSampler if the script has a DataLoader."""
    if loader is None:
        return (
            "generator = torch.Generator().manual_seed(seed + dist.get_rank())  # draw batches from this\n"
            "# or give every rank its own part: data[dist.get_rank()::dist.get_world_size()]"
        )
    if loader.iterable:
        return (
            "def __iter__(self):  # of the dataset\n"
            "    samples = itertools.islice(self.samples(), dist.get_rank(), None, dist.get_world_size())"
        )
    if loader.knows_ranks:
        return "sampler = DistributedSampler(dataset, num_replicas=dist.get_world_size(), rank=dist.get_rank())"
    plain = "loader = DataLoader(dataset, sampler=sampler, ...)  # without shuffle=True"
    place = line_that_made(case, loader)
    made = with_arguments(place, plain, shuffle="", sampler="sampler")
    shuffled = loader.sampler == "RandomSampler"
    return (
        f"sampler = DistributedSampler({dataset_name(place)}, shuffle={shuffled})\n{made}\n"
        "sampler.set_epoch(epoch)  # at the start of every epoch"
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Marks the finding as proved if the ranks' inputs differ once the data is sharded; else the cause is another."""
    if replayed.trouble or not replayed.applied:
        return finding
    left = [same for group in replica_groups(replayed.fixed) for same in same_inputs(replayed.fixed, group)]
    if left:
        return finding
    words = "with the dataset sharded by a DistributedSampler the ranks' batches are all different"
    return replace(finding, proof="replayed", evidence=(*finding.evidence, words))
