"""Detects memory that is freed by hand in every step: the allocator's cache emptied, or garbage collected."""

from statistics import median

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Price, Replayed, priced_by_time
from scalewise.doctor.queries.ranks import short
from scalewise.doctor.queries.times import MOSTLY, WARM_UP, by_line, loop_ns
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import HousekeepingNote
from scalewise.records.spec import Change

CHECK = Check(
    name="cache-emptied-in-loop",
    group="gpu",
    severity="slow",
    detects="torch.cuda.empty_cache(), ipc_collect() or gc.collect() is called in four of five steps or more.",
    why="torch keeps freed memory of the GPU for the next allocation. Emptied, every step waits for the GPU, gives the "
    "memory back and asks the driver for it again. gc.collect() looks at every object of the process. Neither lets a "
    "larger batch fit.",
    example="for x, y in loader:\n    step(x, y)\n    torch.cuda.empty_cache()",
    fix="for x, y in loader:\n    step(x, y)\n# at most between epochs: torch.cuda.empty_cache()",
    needs="five optimizer steps",
    silent="Calls now and then, between epochs or around evaluation; calls that take no time.",
)
LEAST_STEPS = 5
LEAST_NS = 100_000
LEAST_SHARE = 0.02  # share of the loop's time


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding for all lines that free memory."""
    windows = case.windows(LEAST_STEPS)[WARM_UP:]
    if not case.first.all(HousekeepingNote):
        return ()
    often = {
        place: notes
        for place, notes in by_line(case, windows, HousekeepingNote).items()
        if len(notes) >= MOSTLY * len(windows)
    }
    lasted = {
        place: median(sum(note.duration_ns for note in some) for some in notes.values())
        for place, notes in often.items()
    }
    total_ns = sum(lasted.values())
    if total_ns < max(LEAST_NS, LEAST_SHARE * loop_ns(windows)):
        if often and case.run.spec.on_cpu:
            raise Abstain("memory is tidied up in every step; on the CPU its price on a GPU cannot be seen")
        return ()
    calls = {place: notes[min(notes)][0].call for place, notes in often.items()}
    return (_finding(lasted, calls, len(windows)),)


def _finding(lasted: dict[PlaceRow, float], calls: dict[PlaceRow, str], windows: int) -> Finding:
    lines = sorted(lasted, key=lambda line: -lasted[line])
    first = lines[0]
    total_ns = sum(lasted.values())
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"{short(first)} calls {calls[first]}() in most steps, which takes {lasted[first] / 1e6:.2f} ms"
        f"{f', and {len(lines) - 1} more such lines' if len(lines) > 1 else ''}.",
        evidence=tuple(f"{short(line)}: {calls[line]}(), median {lasted[line] / 1e6:.2f} ms" for line in lines),
        fix="\n".join(f"# leave out: {line.text}" for line in lines),
        where=first,
        also=tuple(lines[1:]),
        price=Price(total_ns / 1e6, "ms per step", "tidying up memory", "measured by the host"),
        steps_seen=windows,
        change=Change("no_housekeeping"),
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the calls by the time that the loop gains without them, including memory that is not allocated again."""
    return priced_by_time(finding, replayed, "tidying up memory, and asking for it again")
