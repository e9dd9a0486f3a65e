"""Cuts a rank's notes into windows: all notes after one optimizer step, up to and including the next."""

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
