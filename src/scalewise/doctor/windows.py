"""Cuts a rank's notes into windows: everything since the last step up to and with an optimizer's step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

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
    """One optimizer step and what led to it."""

    number: int
    notes: tuple[Note, ...]  # in order; the step is the last

    def all(self, kind: type[SomeNote]) -> tuple[SomeNote, ...]:
        """The notes of one kind, in order."""
        return tuple(note for note in self.notes if isinstance(note, kind))

    @property
    def forwards(self) -> tuple[ForwardNote, ...]:
        """Forward passes that train."""
        return tuple(note for note in self.all(ForwardNote) if note.trains)

    @property
    def backwards(self) -> tuple[BackwardNote, ...]:
        """All backward passes."""
        return self.all(BackwardNote)

    @property
    def step(self) -> StepNote | None:
        """The step that ends it; None in what is left after the last one."""
        last = self.notes[-1] if self.notes else None
        return last if isinstance(last, StepNote) else None

    @property
    def zeros(self) -> tuple[ZeroNote, ...]:
        """Gradients thrown away in it."""
        return self.all(ZeroNote)

    @property
    def batches(self) -> tuple[BatchNote, ...]:
        """Batches waited for."""
        return self.all(BatchNote)

    @property
    def scaler(self) -> tuple[ScalerNote, ...]:
        """Calls of the GradScaler."""
        return self.all(ScalerNote)

    @property
    def clips(self) -> tuple[ClipNote, ...]:
        """Clippings."""
        return self.all(ClipNote)

    @property
    def collectives(self) -> tuple[CollectiveNote, ...]:
        """Collectives that the script called itself."""
        return self.all(CollectiveNote)


def windows_of(notes: Sequence[Note]) -> tuple[tuple[Window, ...], Window]:
    """The whole windows, and what is left after the last step."""
    windows: list[Window] = []
    held: list[Note] = []
    for note in notes:
        held.append(note)
        if isinstance(note, StepNote):
            windows.append(Window(len(windows), tuple(held)))
            held = []
    return tuple(windows), Window(len(windows), tuple(held))
