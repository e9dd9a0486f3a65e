"""Detects samplers that shuffle differently on each rank, so that the ranks' parts overlap."""

from collections.abc import Iterator

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.checks.no_distributed_sampler import LEAST_SHARED, SharedRows, overlap_of
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.inputs import line_that_made, replica_groups, training_lines, training_rows, twin
from scalewise.records.examination import LoaderRow
from scalewise.records.notes import NOWHERE, SamplerNote
from scalewise.units import named_ranks

LEAST_OF_CHANCE = 0.5  # share of the rows that two random parts of a dataset have in common
AT_RANDOM = ("RandomSampler", "WeightedRandomSampler", "SubsetRandomSampler", "SequentialSampler")

CHECK = Check(
    name="sampler-seeds-differ",
    group="data",
    severity="wrong",
    detects="Rank-aware samplers shuffle with different seeds or epochs on different ranks.",
    why="Each rank takes its part of an order that must be the same on all ranks. With different orders the parts "
    "overlap: about a share of (1 - 1/N)^N of the samples is not trained on in an epoch, others several times.",
    example="sampler = DistributedSampler(dataset, seed=args.seed + rank)",
    fix="sampler = DistributedSampler(dataset, seed=args.seed)  # one seed for all ranks",
    needs="a shuffling sampler with replicas that is asked for its order on two ranks",
    silent="Samplers that do not shuffle have no use for a seed. Of samplers that tell neither rank nor seed it is a "
    "suspicion, from the rows that two ranks met.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Compares the seeds and epochs by which the same sampler shuffles on all ranks, pass by pass."""
    asked = {rank.rank: _shuffles(rank.all(SamplerNote)) for rank in case.ranks}
    samplers = sorted({number for found in asked.values() for number in found})
    if not any(sum(number in found for found in asked.values()) > 1 for number in samplers):
        own = tuple(_own_samplers(case))
        if own:
            return own
        raise Abstain("no shuffling sampler that knows of ranks was used on two ranks")
    found = (
        _judge(case, {rank: asked[rank][number] for rank in asked if number in asked[rank]}) for number in samplers
    )
    return tuple(finding for finding in found if finding is not None)


def _own_samplers(case: Case) -> Iterator[Finding]:
    """Yields findings for samplers of the script's own that draw each rank's share, if the shares overlap."""
    for group in replica_groups(case):
        for row in training_lines(case.first):
            members = [rank for rank in case.ranks if rank.rank in group.ranks]
            mates = [(rank, mate) for rank in members if (mate := twin(case.first, row, rank)) is not None]
            if len(mates) == len(members) and all(_draws_a_share(mate, len(members)) for _, mate in mates):
                overlap = max((overlap_of(mates[0], other) for other in mates[1:]), key=lambda one: one.shared)
                chance = (overlap.expected or 0) * LEAST_OF_CHANCE
                if overlap.shared >= max(2 * LEAST_SHARED, chance) and not overlap.repeated:
                    yield _suspicion(case, row, overlap)


def _draws_a_share(row: LoaderRow, ranks: int) -> bool:
    """Returns True if a sampler of the script's own draws an N-th of the dataset; torch's own draw such at random."""
    if row.knows_ranks or row.iterable or not row.samples or not row.drawn or row.sampler in AT_RANDOM:
        return False
    return abs(row.drawn * ranks - row.samples) < ranks


def _suspicion(case: Case, row: LoaderRow, overlap: SharedRows) -> Finding:
    names = named_ranks(overlap.ranks, small=True)
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"{row.sampler} gives each rank {row.drawn} of {row.samples} samples, but these parts overlap.",
        evidence=(
            f"{names} met {overlap.shared} same rows among their first {overlap.seen} in one pass; 0 would be right",
        ),
        fix="generator = torch.Generator().manual_seed(seed + epoch)  # the same on all ranks\n"
        "order = torch.randperm(len(dataset), generator=generator).tolist()[rank::world_size]",
        where=line_that_made(case, row),
        price=Price(overlap.shared / overlap.seen, "share", "a rank's first samples that another met", "counted"),
        proof="suspected",
        ranks=overlap.ranks,
        steps_seen=len(case.first.windows),
    )


def _shuffles(notes: tuple[SamplerNote, ...]) -> dict[int, list[SamplerNote]]:
    found: dict[int, list[SamplerNote]] = {}
    for note in notes:
        if note.shuffle and note.replicas > 1 and NOWHERE not in (note.seed, note.epoch):
            found.setdefault(note.sampler, []).append(note)
    return found


def _judge(case: Case, by_rank: dict[int, list[SamplerNote]]) -> Finding | None:
    passes = min(map(len, by_rank.values()))
    rounds = [{rank: notes[number] for rank, notes in by_rank.items()} for number in range(passes)]
    # Samplers shuffle by seed + epoch, so that different sums give different orders. If groups of ranks have their own
    # samplers, the number of replicas and the samplers' ranks show it.
    rounds = [notes for notes in rounds if len({note.replicas for note in notes.values()}) == 1 < len(notes)]
    differing = [notes for notes in rounds if len({note.seed + note.epoch for note in notes.values()}) > 1]
    distinct = all(len({note.rank for note in notes.values()}) == len(notes) for notes in differing)
    if not differing or not distinct or len(differing) * 2 < len(rounds):
        return None
    overlap = _overlap(case)
    if overlap is not None and overlap.expected is not None and overlap.expected > 4 * LEAST_SHARED > overlap.shared:
        return None  # the rows themselves show that the parts do not overlap
    return _finding(case, differing, len(rounds), overlap)


def _overlap(case: Case) -> SharedRows | None:
    for row in training_rows(case.first):
        mates = [(rank, mate) for rank in case.ranks if (mate := twin(case.first, row, rank)) is not None]
        if row.knows_ranks and len(mates) > 1:
            return overlap_of(mates[0], mates[1])
    return None


def _finding(case: Case, differing: list[dict[int, SamplerNote]], rounds: int, overlap: SharedRows | None) -> Finding:
    notes = differing[0]
    first = next(iter(notes.values()))
    what = "seed" if len({note.seed for note in notes.values()}) > 1 else "epoch"
    values = ", ".join(f"{getattr(note, what)} on rank {rank}" for rank, note in notes.items())
    missed = (1 - 1 / first.replicas) ** first.replicas
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"The samplers shuffle by different {what}s ({values}), so the ranks' parts of the data overlap.",
        evidence=tuple(_evidence(differing, rounds, overlap)),
        fix=f"sampler = DistributedSampler(dataset, seed={min(note.seed for note in notes.values())})  "
        "# one seed for all ranks\nsampler.set_epoch(epoch)  # one epoch for all ranks",
        where=case.first.places.get(_made(case, first)) or case.first.place(first),
        price=Price(missed, "share", "the samples that no rank trains on in an epoch", "computed: (1 - 1/N)^N"),
        ranks=tuple(notes),
        steps_seen=len(case.first.windows),
    )


def _made(case: Case, note: SamplerNote) -> int:
    """Returns the line of the loader that has a sampler with this seed."""
    rows = [row for row in case.first.loaders if row.knows_ranks and row.seed == note.seed]
    return rows[0].place if rows else note.place


def _evidence(differing: list[dict[int, SamplerNote]], rounds: int, overlap: SharedRows | None) -> Iterator[str]:
    first = next(iter(differing[0].values()))
    yield f"in {len(differing)} of {rounds} passes the {first.replicas} samplers shuffled by different numbers"
    if overlap is not None and overlap.shared:
        names = named_ranks(overlap.ranks, small=True)
        yield f"{names} met {overlap.shared} same rows among their first {overlap.seen} in one pass; 0 would be right"
