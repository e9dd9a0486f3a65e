"""Detects batches that are copied to the GPU from memory that is not pinned."""

from statistics import median

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Check, Finding, Price, Replayed, priced_or_dismissed
from scalewise.doctor.queries.inputs import line_that_made, training_rows, with_arguments
from scalewise.doctor.queries.ranks import short
from scalewise.doctor.queries.source import text_of
from scalewise.doctor.queries.times import MOSTLY, by_line, gpu_settings, settled_windows
from scalewise.records.examination import DeviceWorkRow, LoaderRow, PlaceRow
from scalewise.records.notes import CopyNote
from scalewise.records.spec import Change
from scalewise.units import bytes_text

CHECK = Check(
    name="pageable-copies",
    group="gpu",
    severity="slow",
    detects="Every step copies a megabyte or more to the GPU from pageable memory, and the loop is faster when it is "
    "pinned.",
    why="The driver copies pageable memory to a pinned buffer first, at the speed of one core, and the host waits "
    "until the GPU has done all before it. From pinned memory the copy runs beside the computation.",
    example="loader = DataLoader(dataset, num_workers=4)\nfor x, y in loader:\n    x = x.to(device)",
    fix="loader = DataLoader(dataset, num_workers=4, pin_memory=True)\nfor x, y in loader:\n"
    "    x = x.to(device, non_blocking=True)",
    needs="a GPU, and copies to it in the loop after the first steps",
    silent="Small copies; the same tensor copied again and again, which needs another cure; loops that would not be "
    "faster.",
)
LEAST_BYTES = 1 << 20  # copied in a step


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding for all lines that copy from pageable memory."""
    gpu_settings(case)
    windows = settled_windows(case)
    lines: dict[PlaceRow, float] = {}
    for place, notes in by_line(case, windows, CopyNote).items():
        fresh = [
            sum(note.size_bytes for note in some if note.pinned is False and not note.again) for some in notes.values()
        ]
        if len([size for size in fresh if size]) >= MOSTLY * len(windows):
            lines[place] = median(fresh)
    size = sum(lines.values())
    if size < LEAST_BYTES:
        return ()
    return (_finding(case, lines, size, len(windows)),)


def _finding(case: Case, lines: dict[PlaceRow, float], size: float, windows: int) -> Finding:
    rank = case.first
    ordered = sorted(lines, key=lambda line: -lines[line])
    unpinned = [row for row in training_rows(rank) if not row.pinned]
    work = rank.rows(DeviceWorkRow)
    spent = sum(ns for name, (_, ns) in work[-1].copies.items() if "Pageable" in name) / work[-1].steps if work else 0
    price = Price(spent / 1e6, "ms per step", "copying from pageable memory", "recorded by the GPU") if spent else None
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"{short(ordered[0])} copies {bytes_text(size)} per step to the GPU from memory that is not pinned.",
        evidence=(
            *(f"{short(line)}: {bytes_text(lines[line])} per step: {line.text}" for line in ordered),
            *(
                f"the DataLoader of {short(place)} does not pin"
                for row in unpinned
                if (place := line_that_made(case, row))
            ),
        ),
        fix=_fix(case, ordered[0], unpinned),
        where=ordered[0],
        also=tuple(ordered[1:]),
        price=price,
        proof="suspected",
        steps_seen=windows,
        change=Change("pinned_memory") if unpinned else None,
    )


def _fix(case: Case, line: PlaceRow, unpinned: list[LoaderRow]) -> str:
    copy = text_of(line, "x = x.to(device)").replace(".to(device)", ".to(device, non_blocking=True)")
    if "non_blocking" not in copy:
        copy = f"{copy}  # with non_blocking=True"
    if not unpinned:
        return f"batch = batch.pin_memory()  # once, where the batch is made\n{copy}"
    made = with_arguments(
        line_that_made(case, unpinned[0]), "loader = DataLoader(..., pin_memory=True)", pin_memory="True"
    )
    return f"{made}\n{copy}"


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding | None:
    """Prices the finding by the time that the whole loop gains, or dismisses it."""
    return priced_or_dismissed(finding, replayed, "copies from pageable memory, against pinned ones")
