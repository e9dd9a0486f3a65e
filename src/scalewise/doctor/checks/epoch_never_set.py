"""Detects a shuffling sampler that is never told the epoch, so that every epoch has the same order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.inputs import rows_fed, training_loaders
from scalewise.records.notes import NOWHERE, BackwardNote, BatchNote, ForwardNote, Note, SamplerNote, SetEpochNote

CHECK = Check(
    name="epoch-never-set",
    group="data",
    severity="wrong",
    detects="A shuffling DistributedSampler is gone through in several epochs with one epoch number.",
    why="The sampler shuffles by seed + epoch. Without set_epoch every epoch brings the same batches in the same order "
    "to the same rank: shuffle=True has no effect after the first epoch.",
    example="for epoch in range(epochs):\n    for x, y in loader:  # loader has a DistributedSampler\n        ...",
    fix="for epoch in range(epochs):\n    sampler.set_epoch(epoch)\n    for x, y in loader:\n        ...",
    needs="a shuffling sampler with replicas that training goes through at least twice",
    silent="Samplers of evaluation, samplers that do not shuffle, and passes without a backward pass (a look at the "
    "first batch) do not count. Where the rows themselves come in another order, it says nothing.",
)


@dataclass(frozen=True)
class SamplerPass:
    """One training pass through a sampler."""

    asked: SamplerNote
    fed: tuple[ForwardNote, ...]
    batches: int
    drawn_at: int  # place where its first batch was drawn


def examine(case: Case) -> tuple[Finding, ...]:
    """Looks at the epoch number of each training pass on rank 0."""
    by_sampler = _passes(case.first)
    repeated = [passes for passes in by_sampler.values() if len(passes) > 1] or _made_anew(by_sampler)
    if not repeated:
        raise Abstain("no shuffling sampler that knows of ranks was gone through twice in training")
    found = (_judge(case.first, passes) for passes in repeated)
    return tuple(finding for finding in found if finding is not None)


def _made_anew(by_sampler: dict[int, list[SamplerPass]]) -> list[list[SamplerPass]]:
    """Returns the passes of loops that make a new sampler each time, if two bring the same rows in the same order."""
    by_line: dict[int, list[SamplerPass]] = {}
    for passes in by_sampler.values():
        by_line.setdefault(passes[0].drawn_at, []).extend(passes)
    return [passes for passes in by_line.values() if len(passes) > 1 and _order(passes)]


def _passes(rank: RankCase) -> dict[int, list[SamplerPass]]:
    feeding = training_loaders(rank)
    asked = [(index, note) for index, note in enumerate(rank.notes) if isinstance(note, SamplerNote)]
    found: dict[int, list[SamplerPass]] = {}
    for position, (index, note) in enumerate(asked):
        ends = (later for later, other in asked[position + 1 :] if other.sampler == note.sampler)
        stretch = rank.notes[index : next(ends, len(rank.notes))]
        made = _pass(note, stretch, feeding) if note.shuffle and note.replicas > 1 else None
        if made is not None:
            found.setdefault(note.sampler, []).append(made)
    return found


def _pass(asked: SamplerNote, stretch: Sequence[Note], feeding: frozenset[int]) -> SamplerPass | None:
    """Returns the pass that begins here, or None if its batches are not trained on."""
    first = next((note for note in stretch if isinstance(note, BatchNote)), None)
    if first is None or first.loader not in feeding:
        return None
    drawn = [index for index, note in enumerate(stretch) if isinstance(note, BatchNote) and note.loader == first.loader]
    if not any(isinstance(note, BackwardNote) for note in stretch[drawn[0] :]):
        return None
    fed = tuple(note for note in stretch if isinstance(note, ForwardNote) and note.trains and note.row_digests)
    return SamplerPass(asked, fed, len(drawn), first.place)


def _judge(rank: RankCase, passes: list[SamplerPass]) -> Finding | None:
    samplers = {one.asked.sampler for one in passes}
    values = {(one.asked.seed, one.asked.epoch) for one in passes}
    told = [note.epoch for note in rank.all(SetEpochNote) if note.sampler in samplers]
    # If the number changes later on, two passes under one number are one epoch of two passes.
    if len(values) > 1 or NOWHERE in values.pop() or len(set(told)) > 1 or (told and len(told) < len(passes) - 1):
        return None
    order = _order(passes)
    if order is False:
        return None
    class_known = any(row.sampler == "DistributedSampler" for row in rank.loaders)
    return _finding(rank, passes, told, order, proven=class_known or order is True)


def _order(passes: list[SamplerPass]) -> bool | None:
    """Returns True if two passes brought the same rows in the same order; None if the rows cannot be compared."""
    first, second = (rows_fed(one.fed) for one in passes[:2])
    count = min(len(first), len(second))
    if count < 4 or len(set(first[:count])) < 3:
        return None
    if first[:count] == second[:count]:
        return True
    # Rows that come again in other places are shuffled. Rows that do not come again are augmented: nothing is known.
    return False if len(set(first) & set(second)) > 0.2 * count else None


def _finding(rank: RankCase, passes: list[SamplerPass], told: list[int], order: bool | None, proven: bool) -> Finding:
    epoch = passes[0].asked.epoch
    called = f"set_epoch was called {len(told)} times, always with {told[0]}" if told else "set_epoch was never called"
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"All {len(passes)} epochs were shuffled in the same order: the sampler stayed at epoch {epoch}, "
        f"as {called}.",
        evidence=tuple(_evidence(passes, called, order)),
        fix="for epoch in range(epochs):\n    sampler.set_epoch(epoch)  # before the loader is iterated",
        where=rank.places.get(passes[0].drawn_at) or rank.place(passes[0].asked),
        price=Price(len(passes) - 1, "times", "the first epoch's order was used again", "counted"),
        proof="observed" if proven else "suspected",
        steps_seen=len(rank.windows),
    )


def _evidence(passes: list[SamplerPass], called: str, order: bool | None) -> Iterator[str]:
    seed, epoch = passes[0].asked.seed, passes[0].asked.epoch
    yield f"{len(passes)} training passes with seed {seed} and epoch {epoch}; {called}"
    if order:
        count = min(len(rows_fed(one.fed)) for one in passes[:2])
        yield f"the first {count} rows of the second epoch are those of the first, in the same order"
