"""The examined run as checks see it: each rank's notes, in order, cut into windows, and the rows beside them."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from scalewise.analysis.relation import Relation, relation_of
from scalewise.records.examination import (
    DeviceUseRow,
    ExaminationRow,
    FailureRow,
    LoaderRow,
    LoadingRow,
    OptimizerRow,
    ParameterSumsRow,
    PartRow,
    PlaceRow,
    WorkerSeedRow,
    WrapperRow,
    WrapperUseRow,
)
from scalewise.records.load import RankRecord, Run
from scalewise.records.notes import (
    BackwardNote,
    BatchNote,
    ClipNote,
    CollectiveNote,
    ForwardNote,
    Note,
    ScalerNote,
    StepNote,
    ZeroNote,
)

SomeNote = TypeVar("SomeNote", bound=Note)


@dataclass(frozen=True)
class Window:
    """One optimizer step and the notes that led to it."""

    number: int
    notes: tuple[Note, ...]  # in order; the step is the last

    def all(self, kind: type[SomeNote]) -> tuple[SomeNote, ...]:
        """Returns the notes of one kind, in order."""
        return tuple(note for note in self.notes if isinstance(note, kind))

    @property
    def forwards(self) -> tuple[ForwardNote, ...]:
        """The forward passes that train."""
        return tuple(note for note in self.all(ForwardNote) if note.trains)

    @property
    def backwards(self) -> tuple[BackwardNote, ...]:
        """The backward passes of all its micro-batches."""
        return self.all(BackwardNote)

    @property
    def step(self) -> StepNote | None:
        """The step that ends the window; None for the notes after the last step."""
        last = self.notes[-1] if self.notes else None
        return last if isinstance(last, StepNote) else None

    @property
    def zeros(self) -> tuple[ZeroNote, ...]:
        """The calls that zeroed gradients."""
        return self.all(ZeroNote)

    @property
    def batches(self) -> tuple[BatchNote, ...]:
        """The batches that were waited for."""
        return self.all(BatchNote)

    @property
    def scaler(self) -> tuple[ScalerNote, ...]:
        """The calls of the GradScaler."""
        return self.all(ScalerNote)

    @property
    def clips(self) -> tuple[ClipNote, ...]:
        """The clippings of gradients."""
        return self.all(ClipNote)

    @property
    def collectives(self) -> tuple[CollectiveNote, ...]:
        """The collectives that the script called itself."""
        return self.all(CollectiveNote)


def windows_of(notes: Sequence[Note]) -> tuple[tuple[Window, ...], Window]:
    """Returns the complete windows, and the notes that are left after the last step."""
    windows: list[Window] = []
    held: list[Note] = []
    for note in notes:
        held.append(note)
        if isinstance(note, StepNote):
            windows.append(Window(len(windows), tuple(held)))
            held = []
    return tuple(windows), Window(len(windows), tuple(held))


SomeRow = TypeVar("SomeRow", bound=ExaminationRow)


class Abstain(Exception):
    """Raised when a check lacks what it needs; the reason is shown to the user."""


@dataclass(frozen=True)
class RankCase:
    """The notes and rows of one rank."""

    rank: int
    record: RankRecord
    notes: tuple[Note, ...]
    windows: tuple[Window, ...]  # complete windows, each ending with an optimizer's step
    rest: Window  # the notes after the last step
    places: dict[int, PlaceRow]
    wrappers: tuple[WrapperRow, ...]
    uses: tuple[WrapperUseRow, ...]  # the last row of each wrapper
    loaders: tuple[LoaderRow, ...]
    seeds: tuple[WorkerSeedRow, ...]
    sums: tuple[ParameterSumsRow, ...]
    optimizers: tuple[OptimizerRow, ...]
    device_use: DeviceUseRow | None
    failure: FailureRow | None
    parts: tuple[PartRow, ...] = ()
    loading: tuple[LoadingRow, ...] = ()

    def place(self, note: Note | None) -> PlaceRow | None:
        """Returns the script's line that a note belongs to, or None."""
        return None if note is None else self.places.get(note.place)

    def all(self, kind: type[SomeNote]) -> tuple[SomeNote, ...]:
        """Returns the notes of one kind, in order."""
        return tuple(note for note in self.notes if isinstance(note, kind))

    def rows(self, kind: type[SomeRow]) -> tuple[SomeRow, ...]:
        """Returns the rows of one kind, in order."""
        return _of(self.record.examination, kind)


@dataclass(frozen=True)
class Case:
    """The examined run. Rank 0 represents all ranks in checks of what every rank does the same way."""

    run: Run
    ranks: tuple[RankCase, ...]

    @property
    def first(self) -> RankCase:
        """The lowest rank that left notes; abstains if none did."""
        if not self.ranks:
            raise Abstain("no rank left notes")
        return self.ranks[0]

    @property
    def world_size(self) -> int:
        """The number of ranks as they saw it; the script's own launcher may start another number than asked for."""
        return max((rank.record.start.world_size for rank in self.ranks if rank.record.start), default=len(self.ranks))

    @functools.cached_property
    def relation(self) -> Relation:
        """The relation between the ranks' work: the same model, parts of it, or separate ones."""
        return relation_of(self.run)

    def windows(self, least: int = 2) -> tuple[Window, ...]:
        """Returns rank 0's windows; abstains if there are fewer than `least`."""
        found = self.first.windows
        if len(found) < least:
            raise Abstain(f"needs {least} optimizer steps, saw {len(found)}")
        return found

    def trained_wrappers(self) -> Iterator[WrapperRow]:
        """Yields rank 0's DDP wrappers that were called in training."""
        used = {forward.wrapper for window in self.first.windows for forward in window.forwards if forward.trains}
        return (row for row in self.first.wrappers if row.index in used and row.wrapper == "DistributedDataParallel")

    def ddp_models(self) -> tuple[WrapperRow, ...]:
        """Returns rank 0's DDP wrappers that were called in training; abstains if there are none."""
        found = tuple(self.trained_wrappers())
        if not found:
            raise Abstain("no DistributedDataParallel model was trained")
        return found


def case_of(run: Run) -> Case:
    """Builds the case from the notes of an examined run."""
    return Case(run, tuple(_rank(record) for record in run.ranks if record.notes or record.examination))


def _rank(record: RankRecord) -> RankCase:
    rows = record.examination
    uses = {row.wrapper: row for row in _of(rows, WrapperUseRow)}
    windows, rest = windows_of(record.notes)
    return RankCase(
        rank=record.rank,
        record=record,
        notes=record.notes,
        windows=windows,
        rest=rest,
        places={row.index: row for row in _of(rows, PlaceRow)},
        wrappers=_of(rows, WrapperRow),
        uses=tuple(uses.values()),
        loaders=_of(rows, LoaderRow),
        seeds=_of(rows, WorkerSeedRow),
        sums=_of(rows, ParameterSumsRow),
        optimizers=_of(rows, OptimizerRow),
        device_use=next(iter(_of(rows, DeviceUseRow)[-1:]), None),
        failure=next(iter(_of(rows, FailureRow)[-1:]), None),
        parts=_of(rows, PartRow),
        loading=_of(rows, LoadingRow),
    )


def _of(rows: Sequence[ExaminationRow], kind: type[SomeRow]) -> tuple[SomeRow, ...]:
    return tuple(row for row in rows if isinstance(row, kind))
