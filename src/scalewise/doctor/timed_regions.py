"""The stretches of a run that the script timed: two readings of a clock and the notes in between."""

import bisect
import itertools
from collections import defaultdict
from dataclasses import dataclass

from scalewise.doctor.case import RankCase
from scalewise.doctor.source_timers import Measure, measures
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import (
    BackwardNote,
    ClockNote,
    CollectiveNote,
    DeviceSyncNote,
    ForwardNote,
    HostReadNote,
    Note,
    SaveNote,
    ScalerNote,
    StepNote,
)

EVENT = "Event.record"


@dataclass(frozen=True)
class ClockSpan:
    """Two clock readings that belong together."""

    begin: int  # index of the earlier reading among the rank's notes
    end: int
    notes: tuple[Note, ...]  # notes between the two readings
    seconds: float
    where: PlaceRow  # line of the later reading
    started: PlaceRow
    measure: Measure | None  # None: one reading follows the other, but no subtraction was seen

    @property
    def steps(self) -> int:
        """The number of optimizer steps that ended in the span."""
        return sum(isinstance(note, StepNote) for note in self.notes)

    @property
    def works(self) -> bool:
        """True if the device was given work in the span."""
        return any(map(is_work, self.notes))

    @property
    def waited(self) -> bool:
        """True if the host waited for the device after the last work."""
        for note in reversed(self.notes):
            if is_work(note) or waits(note):
                return waits(note)
        return False


def is_work(note: Note) -> bool:
    """Returns True if the note shows work given to the device."""
    return isinstance(note, ForwardNote | BackwardNote | StepNote)


def waits(note: Note) -> bool:
    """Returns True if the host waited for the device: explicitly, by reading from it, or for a scaler's decision."""
    if isinstance(note, CollectiveNote):
        return note.operation == "barrier"
    if isinstance(note, ScalerNote):
        return note.call == "step"
    return isinstance(note, DeviceSyncNote | HostReadNote | SaveNote)


def undisturbed_from(rank: RankCase) -> int:
    """Returns the index of the first note after the closely examined passes, which wait for the device."""
    close = [
        index
        for index, note in enumerate(rank.notes)
        if (isinstance(note, ForwardNote) and note.digest is not None)
        or (isinstance(note, BackwardNote) and not (note.factor is None and note.gained is None))
    ]
    return close[-1] + 1 if close else 0


def spans_of(rank: RankCase) -> tuple[ClockSpan, ...]:
    """Returns the spans that the script measured, in the order of the later readings."""
    by_line: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index, note in enumerate(rank.notes):
        place = rank.place(note) if isinstance(note, ClockNote) and note.function != EVENT else None
        if place is not None:
            by_line[place.file, place.line].append(index)
    found: list[ClockSpan] = []
    linked: set[int] = set()
    for file in {file for file, _ in by_line}:
        for measure in measures(file, frozenset(line for name, line in by_line if name == file)):
            begins, ends = (
                sorted(index for line in lines for index in by_line.get((file, line), ()))
                for lines in (measure.begins, measure.ends)
            )
            linked.update(begins, ends)
            found += [span for end in ends if (span := _linked(rank, begins, end, measure)) is not None]
    found += _in_a_row(rank, sorted(index for indices in by_line.values() for index in indices), linked)
    return tuple(sorted(found, key=lambda span: (span.end, span.begin)))


def _linked(rank: RankCase, begins: list[int], end: int, measure: Measure) -> ClockSpan | None:
    """Returns the span from the last earlier reading that the subtracted name can hold, or None."""
    position = bisect.bisect_left(begins, end)
    return _span(rank, begins[position - 1], end, measure) if position else None


def _in_a_row(rank: RankCase, clocks: list[int], linked: set[int]) -> list[ClockSpan]:
    """Returns spans of consecutive readings that no subtraction links, as of clocks read in a helper function."""
    found = []
    for begin, end in itertools.pairwise(clocks):
        if begin not in linked and end not in linked:
            span = _span(rank, begin, end, None)
            found += [span] if span is not None else []
    return found


def _span(rank: RankCase, begin: int, end: int, measure: Measure | None) -> ClockSpan | None:
    first, last = rank.notes[begin], rank.notes[end]
    started, where = rank.place(first), rank.place(last)
    if started is None or where is None:
        return None
    return ClockSpan(begin, end, rank.notes[begin + 1 : end], (last.at_ns - first.at_ns) / 1e9, where, started, measure)
