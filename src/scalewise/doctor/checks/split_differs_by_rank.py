"""Detects datasets that each rank splits in its own way, so that one rank trains on another's test data."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price, Replayed
from scalewise.doctor.queries.inputs import line_that_made, loader_of, training_loaders, twin
from scalewise.doctor.queries.source import text_of
from scalewise.records.examination import LoaderRow, PartRow, PlaceRow
from scalewise.records.spec import Change
from scalewise.units import named_ranks

CHECK = Check(
    name="split-differs-by-rank",
    group="data",
    severity="wrong",
    detects="A sampler shares out a part of the dataset among ranks, but the part is another one on each rank.",
    why="The sampler deals out positions. Where the same position is another sample on each rank, an epoch sees some "
    "samples twice and others never, and one rank trains on what another rank tests with.",
    example="train_set, test_set = random_split(dataset, [0.9, 0.1])  # each rank draws its own split\n"
    "sampler = DistributedSampler(train_set)",
    fix="generator = torch.Generator().manual_seed(0)  # the same on every rank\n"
    "train_set, test_set = random_split(dataset, [0.9, 0.1], generator=generator)\n"
    "sampler = DistributedSampler(train_set)",
    needs="two ranks with a loader over a Subset and a sampler that knows of ranks",
    silent="Parts that are dealt out to ranks by hand, without such a sampler or with one for a single replica, are "
    "meant to differ. So are the folds of ranks that train apart.",
)


@dataclass(frozen=True)
class _Pair:
    """The parts from which one loader draws on two ranks."""

    loader: LoaderRow
    others: RankCase
    mine: PartRow
    theirs: PartRow


def examine(case: Case) -> tuple[Finding, ...]:
    """Compares the indices of every loader that shares its part out among ranks."""
    pairs = list(_pairs(case))
    if not pairs:
        raise Abstain("no loader shares out a part of a dataset (a Subset) among ranks")
    apart = [one for one in pairs if one.mine.order != one.theirs.order]
    feeding = training_loaders(case.first)
    first = next(iter(sorted(apart, key=lambda one: one.loader.index not in feeding)), None)
    return (_finding(case, first, apart),) if first is not None else ()


def _pairs(case: Case) -> Iterator[_Pair]:
    first = case.first
    for mine in first.parts:
        loader = loader_of(first, mine.loader)
        if loader is None or not _shared_out(loader):
            continue
        for other in case.ranks[1:]:
            same = twin(first, loader, other)
            theirs = next((one for one in other.parts if same is not None and one.loader == same.index), None)
            if theirs is not None and same is not None and _shared_out(same):
                yield _Pair(loader, other, mine, theirs)


def _shared_out(loader: LoaderRow) -> bool:
    """Returns True if the sampler knows of ranks and draws a share; one for a single replica draws the whole part."""
    whole = loader.drawn is not None and loader.samples is not None and loader.drawn >= loader.samples
    return loader.knows_ranks and not whole


def _finding(case: Case, pair: _Pair, apart: list[_Pair]) -> Finding:
    mine, theirs = pair.mine, pair.theirs
    only_order = mine.members == theirs.members
    ranks = tuple(sorted({case.first.rank, *(one.others.rank for one in apart if one.loader == pair.loader)}))
    made = case.first.places.get(mine.place)
    what = "in another order" if only_order else "with other samples in it"
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"{named_ranks(ranks)} each have a part of the dataset of their own, {what}, though a sampler "
        "shares it out as if it were one.",
        evidence=tuple(_evidence(case, pair)),
        fix=_fix(made),
        where=made or line_that_made(case, pair.loader),
        also=tuple(one for one in (line_that_made(case, pair.loader),) if one is not None and made is not None),
        price=_price(mine, theirs),
        ranks=ranks,
        steps_seen=len(case.first.windows),
        change=None if _takes_indices(made) else Change("same_split"),
    )


def _fix(made: PlaceRow | None) -> str:
    """Returns the script's own split with an equally seeded generator, if it fits on one line; else a general one."""
    line = text_of(made, "")
    if _takes_indices(made):
        return f"random.Random(0).shuffle(indices)  # indices drawn with the same seed on every rank\n{line}"
    if "random_split(" not in line or not line.endswith(")"):
        line = "train_set, test_set = random_split(dataset, lengths)"
    generator = "generator = torch.Generator().manual_seed(0)  # the same on every rank"
    return f"{generator}\n{line[:-1]}, generator=generator)"


def _takes_indices(made: PlaceRow | None) -> bool:
    """Returns True if the script chose the indices itself: a replay cannot change how it drew them."""
    return "Subset(" in text_of(made, "")


def _evidence(case: Case, pair: _Pair) -> Iterator[str]:
    mine, theirs, other = pair.mine, pair.theirs, pair.others.rank
    yield (
        f"the part of rank {case.first.rank} has {mine.samples} samples with the digest {mine.order}, "
        f"that of rank {other} {theirs.samples} with {theirs.order}"
    )
    own, others = set(mine.first), set(theirs.first)
    if own != others:
        yield f"of the first {len(own | others)} samples that are in one of both, {len(own & others)} are in both"
    leaked = _leaked(case, pair)
    if leaked:
        yield leaked


def _leaked(case: Case, pair: _Pair) -> str:
    """Returns a sentence on how many of this rank's test samples the other rank trains on; empty if none."""
    tested = next(
        (
            set(one.first)
            for one in case.first.parts
            if one.dataset == pair.mine.dataset and one.loader != pair.mine.loader
        ),
        set[int](),
    )
    held_out = tested - set(pair.mine.first)
    shared = held_out & set(pair.theirs.first)
    if not shared:
        return ""
    return (
        f"{len(shared)} of {len(held_out)} samples that rank {case.first.rank} keeps for another loader "
        f"are in the part of rank {pair.others.rank}"
    )


def _price(mine: PartRow, theirs: PartRow) -> Price | None:
    own, others = set(mine.first), set(theirs.first)
    if not own or own == others:
        return None
    how = "counted among the first samples of the dataset"
    return Price(len(own - others) / len(own), "share", "of a rank's part that is not in the other rank's", how)


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Marks the finding as proved if the parts are equal with one seed for all splits; else they have another cause."""
    if replayed.trouble or not replayed.applied:
        return finding
    pairs = list(_pairs(replayed.fixed))
    if not pairs or any(one.mine.order != one.theirs.order for one in pairs):
        return finding
    words = "with the same seed for random_split on every rank the parts are the same"
    return replace(finding, proof="replayed", evidence=(*finding.evidence, words))
