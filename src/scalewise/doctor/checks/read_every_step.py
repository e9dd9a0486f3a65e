"""The host reads a number from the device at every step, and waits for it each time."""

import re
from collections import defaultdict
from statistics import median

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.check import Check
from scalewise.doctor.checks.clock_without_synchronise import asks_for_gpu
from scalewise.doctor.finding import Finding, Price, Proof
from scalewise.doctor.parting import short
from scalewise.doctor.spans import undisturbed_from
from scalewise.doctor.windows import Window
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import INDIRECT, HostReadNote

CHECK = Check(
    name="read-every-step",
    group="timing",
    severity="slow",
    detects="One line reads a tensor of the GPU (.item(), .cpu(), float(), if ...) in four of five steps or more.",
    why="The host waits until the GPU has done all it was given; then the GPU waits until the host has handed out the "
    "next step. Neither works while the other does.",
    example="for x, y in loader:\n    loss = step(x, y)\n    total += loss.item()",
    fix="total = torch.zeros((), device=device)\nfor x, y in loader:\n    loss = step(x, y)\n"
    "    total += loss.detach()  # stays on the GPU\nprint(total.item())  # once",
    needs="A script that asks for a GPU, and five optimizer steps.",
    silent="Reads now and then; reads of tensors on the host; reads that a library makes; on a GPU, waits too short to "
    "matter.",
)
LEAST_STEPS = 5
LEAST_SHARE = 0.8  # of the steps
LEAST_WAIT_NS = 100_000
LEAST_OF_STEP = 0.05
WARM_UP = 2


def examine(case: Case) -> tuple[Finding, ...]:
    """One finding per rank 0's loop: the line that waits longest stands for it, with all others beside it."""
    if not asks_for_gpu(case):
        raise Abstain("the script asks for no GPU")
    windows = _settled(case)
    reads = _reads(case.first, windows)
    often = {line: waits for line, waits in reads.items() if len(waits) >= LEAST_SHARE * len(windows)}
    if not often:
        return ()
    wait_ns = sum(median(waits.values()) for waits in often.values())
    if not case.run.spec.on_cpu and wait_ns < max(LEAST_WAIT_NS, LEAST_OF_STEP * _step_ns(windows)):
        return ()
    return (_finding(case, often, wait_ns, len(windows)),)


def _settled(case: Case) -> tuple[Window, ...]:
    """On a GPU without the first passes, for which the examination itself waits: the script's reads then need not."""
    windows = case.windows(LEAST_STEPS)[WARM_UP:]
    if case.run.spec.on_cpu:
        return windows
    begin = undisturbed_from(case.first)
    begin_ns = case.first.notes[begin].at_ns if begin < len(case.first.notes) else 0
    later = tuple(window for window in windows if begin_ns and window.notes[0].at_ns >= begin_ns)
    if len(later) < LEAST_STEPS:
        raise Abstain(f"needs {LEAST_STEPS} steps after the first passes that are looked at closely, saw {len(later)}")
    return later


def _reads(rank: RankCase, windows: tuple[Window, ...]) -> dict[PlaceRow, dict[int, int]]:
    """Line -> window -> nanoseconds waited in it; what is read after a step belongs to the next window."""
    found: dict[PlaceRow, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for window in windows:
        for note in window.all(HostReadNote):
            place = rank.place(note)
            if place is not None and not note.call.endswith(INDIRECT):
                found[place][window.number] += note.wait_ns
    return found


def _step_ns(windows: tuple[Window, ...]) -> float:
    ends = [window.notes[-1].at_ns for window in windows]
    return (ends[-1] - ends[0]) / max(1, len(ends) - 1)


def _finding(case: Case, often: dict[PlaceRow, dict[int, int]], wait_ns: float, windows: int) -> Finding:
    on_cpu = case.run.spec.on_cpu
    lines = sorted(often, key=lambda line: -sum(often[line].values()))
    first = lines[0]
    waits = "" if on_cpu else f", waiting {wait_ns / 1e6:.2f} ms per step"
    proof: Proof = "suspected" if on_cpu else "observed"
    how = "on the CPU nothing is waited for: its price on a GPU cannot be seen" if on_cpu else "measured by the host"
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"{short(first)} reads a tensor from the GPU in {len(often[first])} of {windows} steps{waits}.",
        evidence=(*(f"{short(line)} in {len(often[line])} of {windows} steps: {line.text}" for line in lines), how),
        fix=_fix(first.text.partition("  #")[0]),
        where=first,
        also=tuple(lines[1:]),
        price=None if on_cpu else Price(wait_ns / 1e6, "ms per step", "the host waiting for the GPU", how),
        proof=proof,
        steps_seen=windows,
    )


def _fix(text: str) -> str:
    """The line, now and then; a line that decides what runs next cannot simply be left out."""
    told = "# keep it on the GPU (.detach()) and read it now and then"
    if re.match(r"(return|yield|assert|if|elif|while|for|with)\b", text) or text.endswith(":"):
        return f"{text}  {told}, not in every step"
    return f"{told}:\nif step % 50 == 0:\n    {text}"
