"""Tells which DataLoader feeds training, how often and how far it was iterated, and its equivalent on other ranks."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from scalewise.doctor.case import Case, RankCase
from scalewise.records.examination import LoaderRow, PlaceRow
from scalewise.records.notes import BackwardNote, BatchNote, ExhaustedNote, ForwardNote, LoaderNote


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
