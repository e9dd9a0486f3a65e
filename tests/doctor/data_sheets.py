"""Ranks that go through a DataLoader, for the tests of the checks of data and of the machine."""

from typing import Any

from case_factory import Sheet, make_case, make_loader

from factories import make_estimate
from scalewise.doctor.case import Case
from scalewise.doctor.finding import Replayed, TimeSaved
from scalewise.records.notes import GroupNote, SamplerNote
from scalewise.records.spec import Change

LINE = "loader = DataLoader(dataset, batch_size=4, shuffle=True)"
MILLISECOND = 1_000_000


def rows(*numbers: int) -> list[str]:
    """Digests of samples by their numbers."""
    return [f"row {number}" for number in numbers]


def loader_of(sheet: Sheet, **changes: Any) -> Sheet:
    """The rank has a plain loader over 64 samples, made at LINE."""
    plain = {"sampler": "RandomSampler", "knows_ranks": False, "samples": 64, "drawn": 64, "seed": None}
    return sheet.row(make_loader(**{"place": sheet.place(LINE), **plain, **changes}))


def feed(sheet: Sheet, batches: list[list[int]], *, ends: bool = True, **forward: Any) -> Sheet:
    """One epoch: a step per batch of sample numbers."""
    sheet.epoch()
    for batch in batches:
        digest = "batch " + " ".join(map(str, batch))
        # A list has one entry per micro-batch, of which there is one.
        sheet.window(forward={"digest": digest, "row_digests": [rows(*batch)], "rows": len(batch), **forward})
    return sheet.exhausted() if ends else sheet


def sampled(sheet: Sheet, **values: Any) -> Sheet:
    """The loader's sampler, which knows of ranks, is asked for its order."""
    return sheet.add(SamplerNote, **values)


def grouped(sheet: Sheet, *events: str) -> Sheet:
    """The process group is made, destroyed."""
    for event in events:
        sheet.add(GroupNote, line=f"dist.{event}_process_group()", event=event)
    return sheet


def batches_of(numbers: list[int], size: int = 4) -> list[list[int]]:
    """Cut into batches."""
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def two(first: Sheet, second: Sheet, **run: Any) -> Case:
    """A case of two ranks."""
    return make_case(first, second, **run)


def replay(
    name: str,
    plain: Case,
    fixed: Case,
    *,
    applied: int = 3,
    saved: tuple[float, float, float] | None = None,
    trouble: str = "",
) -> Replayed:
    """What a replay of a change showed; `saved` in milliseconds with its interval, of a step of 20 ms."""
    how = "measured with the fix applied, in turns with the script as it is"
    saving = None if saved is None else TimeSaved(make_estimate(*saved), 20.0, how)
    return Replayed(Change(name), plain, fixed, applied, saving, trouble)
