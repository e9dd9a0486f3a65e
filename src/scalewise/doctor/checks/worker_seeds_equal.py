"""Detects ranks, workers or epochs that draw the same random numbers while they fetch samples."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Replayed
from scalewise.doctor.queries.inputs import Replicas, line_that_made, replica_groups, same_inputs, training_lines, twin
from scalewise.doctor.queries.source import text_of
from scalewise.records.examination import LoaderRow, PlaceRow, WorkerSeedRow
from scalewise.records.notes import NOWHERE, SeedNote
from scalewise.records.spec import Change
from scalewise.units import named_ranks

SEEDING = {"numpy": "np.random.seed(seed)", "random": "random.seed(seed)", "torch": "torch.manual_seed(seed)"}

CHECK = Check(
    name="worker-seeds-equal",
    group="data",
    severity="wrong",
    detects="Generators that are drawn from while samples are fetched begin in the same state on several ranks, in "
    "several workers, or in every epoch.",
    why="Random crops, flips and noise are then the same on all of them: there is less augmentation than it seems, "
    "and the samples of a batch are correlated.",
    example="def worker_init_fn(worker_id):\n    np.random.seed(0)",
    fix="def worker_init_fn(worker_id):\n    np.random.seed(torch.initial_seed() % 2**32)\n\n\n"
    "torch.manual_seed(seed + rank)  # before the loader is iterated",
    needs="the state of the generators at the first fetch of an epoch, and whether that fetch drew from them",
    silent="Equal states are no fault while nothing is drawn from them. Ranks that are fed the very same batches "
    "are the business of same-data.",
)


@dataclass(frozen=True)
class Equal:
    """A group of fetches that began in the same generator state and drew from it."""

    across: str  # ranks, workers, epochs
    generator: str  # torch, numpy, random
    numbers: tuple[int, ...]  # the numbers of those ranks, workers or epochs
    digest: str


def examine(case: Case) -> tuple[Finding, ...]:
    """Compares the states that were drawn from, over ranks, over workers, over epochs."""
    rows = training_lines(case.first)
    known = [row for row in rows if _drawn(case.first, row)]
    if not known:
        raise Abstain("no fetch of a training loader was looked at")
    groups = replica_groups(case)
    alike = any(same_inputs(case, group) for group in groups)
    found = []
    for row in known:
        equal = _equal(case, row, groups, alike)
        if equal is not None:
            found.append(_finding(case, row, equal))
    return tuple(found)


def _drawn(rank: RankCase, row: LoaderRow) -> dict[int, list[WorkerSeedRow]]:
    """Returns the notes of this loader's fetches, one per epoch, by worker; the rank itself is NOWHERE."""
    found: dict[int, list[WorkerSeedRow]] = {}
    for seed in rank.seeds:
        if seed.loader == row.index and seed.used:
            found.setdefault(seed.worker, []).append(seed)
    return found


def _equal(case: Case, row: LoaderRow, groups: tuple[Replicas, ...], alike: bool) -> Equal | None:
    looks = _drawn(case.first, row)
    by_worker = {worker: seeds[0] for worker, seeds in looks.items() if worker != NOWHERE}
    over = [
        _same("workers", by_worker),
        *(_same("epochs", dict(enumerate(seeds))) for seeds in looks.values()),
        *(_over_ranks(case, row, group) for group in groups if not alike),
    ]
    return next((found for found in over if found is not None), None)


def _over_ranks(case: Case, row: LoaderRow, group: Replicas) -> Equal | None:
    """Compares the first note of the lowest worker of each rank; the other workers are seeded by the same rule."""
    firsts: dict[int, WorkerSeedRow] = {}
    for rank in case.ranks:
        mate = twin(case.first, row, rank) if rank.rank in group.ranks else None
        looks = _drawn(rank, mate) if mate is not None else {}
        if looks:
            firsts[rank.rank] = looks[min(looks)][0]
    return _same("ranks", firsts)


def _same(across: str, looks: dict[int, WorkerSeedRow]) -> Equal | None:
    """Returns the first state that at least two of them began with and drew from, or None."""
    for generator in SEEDING:
        met: dict[str, list[int]] = {}
        for number, look in looks.items():
            if look.used.get(generator) and generator in look.states:
                met.setdefault(look.states[generator], []).append(number)
        for digest, numbers in met.items():
            if len(numbers) > 1:
                return Equal(across, generator, tuple(sorted(numbers)), digest)
    return None


def _finding(case: Case, row: LoaderRow, equal: Equal) -> Finding:
    who = _who(equal)
    loader = line_that_made(case, row)
    seeded = _seeded_at(case.first, equal) if equal.across == "ranks" else None
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"{who} draw the same numbers from {equal.generator}'s generator while fetching samples.",
        evidence=tuple(_evidence(case, row, equal)),
        fix=_fix(equal, seeded),
        where=seeded or loader,
        also=(loader,) if seeded is not None and loader is not None else (),
        ranks=equal.numbers if equal.across == "ranks" else (),
        steps_seen=len(case.first.windows),
        change=Change("seed_by_rank"),
    )


def _seeded_at(rank: RankCase, equal: Equal) -> PlaceRow | None:
    """Returns the last line of the script that seeds this generator, directly or through a library."""
    calls = {"torch": "torch.manual_seed", "numpy": "numpy.random.seed", "random": "random.seed"}
    notes = [note for note in rank.all(SeedNote) if note.call == calls[equal.generator]]
    return rank.place(notes[-1]) if notes else None


def _who(equal: Equal) -> str:
    if equal.across == "ranks":
        return named_ranks(equal.numbers)
    listed = ", ".join(map(str, equal.numbers))
    return f"Workers {listed} of the loader" if equal.across == "workers" else f"Epochs {listed}"


def _evidence(case: Case, row: LoaderRow, equal: Equal) -> Iterator[str]:
    yield (
        f"the state of {equal.generator}'s generator before the first fetch is {equal.digest} in "
        f"{len(equal.numbers)} {equal.across}, and the fetch drew from it"
    )
    bases = {look.base_seed for rank in case.ranks for look in rank.seeds if look.base_seed is not None}
    if equal.across == "ranks" and row.workers and len(bases) == 1:
        yield f"every rank gives its workers the base seed {bases.pop()}"


def _fix(equal: Equal, seeded: PlaceRow | None) -> str:
    seeding = SEEDING[equal.generator]
    if equal.across == "ranks":
        given = re.search(r"seed\w*\(\s*([\w.\[\]\"']+)\s*\)", text_of(seeded, ""))
        own = given[1] if given else "torch.initial_seed() % 2**32"
        changed = seeding.replace("(seed)", f"({own} + torch.distributed.get_rank())")
        return f"{changed}  # after the model is made, before the loader is iterated"
    return (
        "def worker_init_fn(worker_id):\n"
        "    seed = torch.initial_seed() % 2**32  # different in every worker and epoch\n"
        f"    {seeding}"
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Marks the finding as proved if no two generators begin alike once a replay seeds them differently."""
    if replayed.trouble or not replayed.applied:
        return finding
    try:
        left = examine(replayed.fixed)
    except Abstain:
        return finding
    if left:
        return finding
    words = "with every rank and worker seeded apart, none of them begins with the state of another"
    return replace(finding, proof="replayed", evidence=(*finding.evidence, words))
