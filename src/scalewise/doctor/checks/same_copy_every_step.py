"""Detects a tensor that is copied to the GPU again, unchanged, in every step."""

from statistics import median

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.checks.clock_without_synchronise import asks_for_gpu
from scalewise.doctor.finding import Check, Finding, Price, Replayed, priced_or_dismissed
from scalewise.doctor.queries.ranks import short
from scalewise.doctor.queries.source import text_of
from scalewise.doctor.queries.times import MOSTLY, by_line, gpu_settings, loop_ns, settled_windows
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import CopyNote
from scalewise.records.spec import Change
from scalewise.units import bytes_text

CHECK = Check(
    name="same-copy-every-step",
    group="gpu",
    severity="slow",
    detects="A line copies the same unchanged tensor to the GPU in four of five steps or more: a mask, weights.",
    why="A copy that is already there crosses the bus again, and from pageable memory the host waits for it each time.",
    example="mask = torch.tril(torch.ones(n, n))\nfor x, y in loader:\n    loss = step(x, y, mask.to(device))",
    fix="mask = torch.tril(torch.ones(n, n)).to(device)  # once; in a module: self.register_buffer('mask', mask)\n"
    "for x, y in loader:\n    loss = step(x, y, mask)",
    needs="a script that asks for a GPU, and copies to it in the loop",
    silent="Copies too small and too quick to matter; tensors that were written to since the last copy.",
)
LEAST_BYTES = 1 << 16  # copied in a step, if its time cannot be seen
LEAST_SHARE = 0.02  # share of the loop's time, if it can


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one suspected finding for all such lines; the length of the calls proves nothing.

    The calls may wait for other work.
    """
    if not asks_for_gpu(case):
        raise Abstain("the script asks for no GPU")
    on_cpu = case.run.spec.on_cpu
    if not on_cpu:
        gpu_settings(case)
    windows = settled_windows(case)
    found: dict[PlaceRow, tuple[float, float]] = {}
    for place, notes in by_line(case, windows, CopyNote).items():
        again = [[note for note in some if note.again] for some in notes.values()]
        if sum(map(bool, again)) >= MOSTLY * len(windows):
            sizes, times = ([sum(getattr(note, name) for note in some) for some in again] for name in _FIGURES)
            found[place] = (median(sizes), median(times))
    size, lasted_ns = (sum(one[index] for one in found.values()) for index in (0, 1))
    if size < LEAST_BYTES if on_cpu else lasted_ns < LEAST_SHARE * loop_ns(windows):
        return ()
    return (_finding(case, found, size, len(windows)),) if found else ()


_FIGURES = ("size_bytes", "duration_ns")


def _finding(case: Case, found: dict[PlaceRow, tuple[float, float]], size: float, windows: int) -> Finding:
    on_cpu = case.run.spec.on_cpu
    lines = sorted(found, key=lambda line: -found[line][1])
    first = lines[0]
    lasted_ns = sum(lasted for _, lasted in found.values())
    how = "on the CPU its price on a GPU cannot be seen" if on_cpu else "measured by the host, waiting included"
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"{short(first)} copies the same {bytes_text(size)} to the GPU in every step.",
        evidence=(*(f"{short(line)}: {bytes_text(found[line][0])}: {line.text}" for line in lines), how),
        fix=f"# once, before the loop: move the tensor to the GPU and keep it there\n{text_of(first, CHECK.fix)}",
        where=first,
        also=tuple(lines[1:]),
        price=None if on_cpu else Price(lasted_ns / 1e6, "ms per step", "copying it again", how),
        proof="suspected",
        steps_seen=windows,
        change=None if on_cpu else Change("kept_copies"),
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding | None:
    """Prices the finding by the time that the loop gains when the copy is kept, or dismisses it."""
    return priced_or_dismissed(finding, replayed, "copying the same tensor again")
