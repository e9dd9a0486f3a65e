"""The data that ranks were fed: by which loader, how far it was iterated, and which ranks should see their own."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from scalewise.analysis.relation import BY_AVERAGING, BY_REDUCING
from scalewise.doctor.case import Abstain, Case, RankCase, Window
from scalewise.records.collectives import collective_kind
from scalewise.records.examination import LoaderRow, PlaceRow, WrapperRow
from scalewise.records.notes import (
    NOWHERE,
    BackwardNote,
    BatchNote,
    CollectiveNote,
    ExhaustedNote,
    ForwardNote,
    LoaderNote,
)


@dataclass(frozen=True)
class Epoch:
    """One pass of one rank over one loader, complete or not."""

    number: int  # number of the pass over this loader on this rank, from 0
    batches: int
    backwards: int  # backward passes while its batches were the last that were drawn
    exhausted: bool
    fed: tuple[ForwardNote, ...]  # the first training forward pass after each batch


def training_loaders(rank: RankCase) -> frozenset[int]:
    """Returns the loaders of whose batches at least half were followed by a backward pass."""
    drawn: Counter[int] = Counter()
    used: Counter[int] = Counter()
    pending: list[int] = []
    evaluated = trained = False
    for note in rank.notes:
        if isinstance(note, BatchNote):
            # A frozen teacher may be called on a batch before the model that learns from it. So only a batch that was
            # only evaluated is finished when the next one is drawn.
            if evaluated and not trained:
                pending.clear()
            evaluated = trained = False
            drawn[note.loader] += 1
            pending.append(note.loader)
        elif isinstance(note, ForwardNote):
            evaluated, trained = evaluated or not note.trains, trained or note.trains
        elif isinstance(note, BackwardNote):
            used.update(pending)
            pending.clear()
            evaluated = trained = False
    return frozenset(loader for loader, count in drawn.items() if 2 * used[loader] >= count)


def epochs(rank: RankCase, loader: int) -> tuple[Epoch, ...]:
    """Returns the passes over a loader in order; a batch drawn before any beginning was seen starts the first pass."""
    return tuple(_epochs(rank, loader))


def _epochs(rank: RankCase, loader: int) -> Iterator[Epoch]:
    number, batches, backwards, over, begun = 0, 0, 0, False, False
    fed: list[ForwardNote] = []
    waiting = last = False
    for note in rank.notes:
        if isinstance(note, LoaderNote) and note.loader == loader:
            if begun:
                yield Epoch(number, batches, backwards, over, tuple(fed))
                number += 1
            batches, backwards, over, begun, fed, waiting = 0, 0, False, True, [], False
        elif isinstance(note, BatchNote):
            last = note.loader == loader
            waiting, begun, batches = waiting or last, begun or last, batches + last
        elif isinstance(note, ExhaustedNote) and note.loader == loader:
            over = True
        elif isinstance(note, ForwardNote) and note.trains and waiting:
            fed.append(note)
            waiting = False
        elif isinstance(note, BackwardNote):
            backwards += last
    if begun:
        yield Epoch(number, batches, backwards, over, tuple(fed))


def loader_of(rank: RankCase, index: int) -> LoaderRow | None:
    """Returns the row of the loader with this number, or None."""
    return next((row for row in rank.loaders if row.index == index), None)


def training_rows(rank: RankCase) -> tuple[LoaderRow, ...]:
    """Returns the rows of the loaders that feed training."""
    feeding = training_loaders(rank)
    return tuple(row for row in rank.loaders if row.index in feeding)


def training_lines(rank: RankCase) -> tuple[LoaderRow, ...]:
    """Returns the first training loader that each line made; a script may make a new loader for every epoch."""
    found: dict[tuple[str, int] | int, LoaderRow] = {}
    for row in training_rows(rank):
        found.setdefault(_line(rank, row), row)
    return tuple(found.values())


def twin(rank: RankCase, row: LoaderRow, other: RankCase) -> LoaderRow | None:
    """Returns the loader that another rank made at the same line, in the same order among those made there; or None."""
    line = _line(rank, row)
    before = sum(one.index < row.index and _line(rank, one) == line for one in rank.loaders)
    alike = [one for one in other.loaders if _line(other, one) == line]
    return alike[before] if before < len(alike) else None


def _line(rank: RankCase, row: LoaderRow) -> tuple[str, int] | int:
    place = rank.places.get(row.place)
    return (place.file, place.line) if place else row.index


def line_that_made(case: Case, row: LoaderRow | None) -> PlaceRow | None:
    """Returns the line at which rank 0 made the loader, or None."""
    return None if row is None else case.first.places.get(row.place)


def with_arguments(place: PlaceRow | None, otherwise: str, **arguments: str) -> str:
    """Returns the script's own call with these arguments set (removed if empty); `otherwise` if there is no call."""
    text = re.sub(r"\s+#.*$", "", place.text if place else "")
    start = text.find("DataLoader(")
    end = _closing(text, start + len("DataLoader(")) if start >= 0 else -1
    if end < 0:
        return otherwise
    call = text[start:end]
    for name, value in arguments.items():
        given = re.compile(rf"\b{name}\s*=\s*[^,()]+(\([^()]*\))?")
        new = f"{name}={value}" if value else ""
        call = given.sub(new, call) if given.search(call) else f"{call}, {new}" if new else call
    call = re.sub(r",\s*(?=,|$)", "", call)
    return f"{text[:start]}{call}{text[end:]}"


def _closing(text: str, start: int) -> int:
    """Returns the position of the bracket that closes the one before `start`; -1 if it is not on this line."""
    depth = 1
    for place, letter in enumerate(text[start:], start):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return place
    return -1


def dataset_name(place: PlaceRow | None) -> str:
    """Returns the script's name for the dataset in the line that makes a loader; `dataset` if it cannot be read."""
    found = re.search(r"DataLoader\(\s*(?:dataset\s*=\s*)?([A-Za-z_][\w.]*)\s*[,)]", place.text if place else "")
    return found[1] if found else "dataset"


LEAST_BATCHES = 3
SHARDED = ("FSDP", "FullyShardedDataParallel", "FSDPModule")
BY_HAND = "all_reduce of the gradients"
NO_REPLICAS = {  # kind of relation between the ranks -> why they should not each see different data
    "alone": "there is one rank only",
    "tensor parallel": "the ranks split one model (tensor parallel), so all of them work on one batch",
    "pipeline": "the ranks are stages of a pipeline, so one batch goes through all of them",
    "apart": "the ranks train apart: they average nothing",
}
GRADIENT_SHARE = 0.9  # if this share of the parameters' bytes is reduced by hand after backward, gradients are averaged


@dataclass(frozen=True)
class Replicas:
    """A group of ranks that average their gradients, so that each should see data of its own."""

    ranks: tuple[int, ...]
    how: str  # DistributedDataParallel, FSDP, BY_HAND, averaging of the parameters

    @property
    def wrapped(self) -> bool:
        """True if a wrapper of torch does the averaging."""
        return self.how not in (BY_HAND, BY_AVERAGING)


@dataclass(frozen=True)
class SameInputs:
    """A set of ranks whose first training inputs are the same."""

    ranks: tuple[int, ...]
    batches: int  # batches compared on each rank
    distinct: int  # number of different batches among those
    first: ForwardNote  # first training forward pass of the lowest of the ranks


def replica_groups(case: Case) -> tuple[Replicas, ...]:
    """Returns the groups of ranks that average their gradients; tensor- or pipeline-parallel groups do not count."""
    found = dict.fromkeys(group for rank in case.ranks for group in _groups(rank, case))
    return tuple(group for group in found if len(group.ranks) > 1)


def _groups(rank: RankCase, case: Case) -> Iterator[Replicas]:
    trained = {number for window in rank.windows for note in window.forwards for number in _wrappers(note)}
    rows = [row for row in rank.wrappers if row.index in trained and averages(row)]
    for row in rows:
        yield Replicas(tuple(sorted(row.ranks)), "FSDP" if row.wrapper in SHARDED else row.wrapper)
    if not rows:
        members, everyone = _by_hand(rank), tuple(one.rank for one in case.ranks)
        if members is not None:
            yield Replicas(members or everyone, BY_HAND)
        elif case.relation.how in (BY_REDUCING, BY_AVERAGING):
            yield Replicas(everyone, BY_HAND if case.relation.how == BY_REDUCING else BY_AVERAGING)


def require_replicas(case: Case) -> tuple[Replicas, ...]:
    """Returns the groups of ranks that average their gradients; abstains if there are none, and says why."""
    groups = replica_groups(case)
    if not groups:
        raise Abstain(NO_REPLICAS.get(case.relation.kind, "no two ranks were seen to average their gradients"))
    return groups


def require_own_batches(case: Case) -> tuple[Replicas, ...]:
    """Returns the same groups; abstains also if the ranks may share one batch among themselves inside the model."""
    groups = require_replicas(case)
    if any(_shares_out(rank) for rank in case.ranks):
        raise Abstain(
            "in forward the ranks send each other parts of activations (all_to_all), so they may share out one batch"
        )
    return groups


def _shares_out(rank: RankCase) -> bool:
    """Returns True if ranks exchange parts of activations in forward, in most windows.

    For example, each rank holds some embedding tables, looks up all samples in them, and goes on with its own samples.
    """
    shared = sum(_sends_parts(window) for window in rank.windows)
    return 2 * shared > len(rank.windows)


def _sends_parts(window: Window) -> bool:
    last = max((index for index, note in enumerate(window.notes) if isinstance(note, BackwardNote)), default=0)
    before = [note for note in window.notes[:last] if isinstance(note, CollectiveNote)]
    return any(collective_kind(note.operation).parts for note in before)


def averages(row: WrapperRow) -> bool:
    """Returns True if the wrapper's ranks average gradients."""
    return row.wrapper == "DistributedDataParallel" or row.wrapper in SHARDED


def _wrappers(note: ForwardNote) -> tuple[int, ...]:
    return tuple(number for number in (note.wrapper, note.bypassed) if number != NOWHERE)


def _by_hand(rank: RankCase) -> tuple[int, ...] | None:
    """Returns the group in which the script itself reduces gradients in most windows; (): all ranks; None: it does not.

    Only reductions after backward has returned count; earlier ones are of activations or their gradients (tensor
    parallelism).
    """
    model = rank.record.model
    if model is None or not model.parameter_bytes:
        return None
    groups = [_reduced(window, GRADIENT_SHARE * model.parameter_bytes) for window in rank.windows]
    found = [group for group in groups if group is not None]
    return found[0] if found and 2 * len(found) > len(groups) and len(set(found)) == 1 else None


def _reduced(window: Window, least_bytes: float) -> tuple[int, ...] | None:
    last = max((index for index, note in enumerate(window.notes) if isinstance(note, BackwardNote)), default=None)
    if last is None:
        return None
    sent: dict[tuple[int, ...], int] = {}
    for note in window.notes[last + 1 :]:
        if isinstance(note, CollectiveNote) and note.operation.startswith(("all_reduce", "reduce_scatter")):
            group = tuple(note.ranks)
            sent[group] = sent.get(group, 0) + note.size_bytes
    return next((group for group, size in sent.items() if size >= least_bytes), None)


def same_inputs(case: Case, group: Replicas) -> tuple[SameInputs, ...]:
    """Returns the sets of ranks of the group that were fed the same in their first training forward passes."""
    fed = {rank.rank: _digests(rank, group) for rank in case.ranks if rank.rank in group.ranks}
    modules = {module for digests in fed.values() for module in digests}
    fed = {number: digests for number, digests in fed.items() if digests}
    if len(fed) < 2:
        return ()
    lengths = {module: min(len(digests.get(module, ())) for digests in fed.values()) for module in modules}
    compared = sorted(module for module, length in lengths.items() if length >= LEAST_BATCHES)
    alike: dict[tuple[tuple[str, ...], ...], list[int]] = {}
    for number, digests in fed.items():
        alike.setdefault(tuple(tuple(digests[one][: lengths[one]]) for one in compared), []).append(number)
    return tuple(
        SameInputs(tuple(numbers), max(map(len, key)), max(len(set(one)) for one in key), _first(case, numbers[0]))
        for key, numbers in alike.items()
        if compared and len(numbers) > 1
    )


def _first(case: Case, number: int) -> ForwardNote:
    rank = next(rank for rank in case.ranks if rank.rank == number)
    return next(note for note in rank.all(ForwardNote) if note.trains and note.digest is not None)


def _digests(rank: RankCase, group: Replicas) -> dict[str, list[str]]:
    """Returns the digests of what each model was fed in training, in order, by model: a generator is fed noise."""
    found: dict[str, list[str]] = {}
    for note in _fed_models(rank, group):
        if note.digest is not None:
            found.setdefault(f"{note.module} {max(note.wrapper, note.bypassed)}", []).append(note.digest)
    return found


def _fed_models(rank: RankCase, group: Replicas) -> Iterator[ForwardNote]:
    """Yields the forward passes of trained models; a loss or a frozen model may be a module too, but is fed outputs."""
    if group.wrapped:
        yield from (note for note in rank.all(ForwardNote) if note.trains and _wrappers(note))
        return
    for window in rank.windows:
        yield from window.forwards[:1]


def comparable_inputs(case: Case, group: Replicas) -> int:
    """Returns how many of the first inputs have a digest on every rank of the group."""
    counts = [
        sum(note.digest is not None for note in _fed_models(rank, group))
        for rank in case.ranks
        if rank.rank in group.ranks
    ]
    return min(counts) if len(counts) > 1 else 0


def rows_fed(fed: tuple[ForwardNote, ...]) -> list[str]:
    """Returns the digests of all rows in these forward passes."""
    return [digest for note in fed for digest in note.row_digests]
