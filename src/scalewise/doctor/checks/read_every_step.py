"""Detects a host that reads a number from the device at every step, and waits for it each time."""

import re
from dataclasses import replace
from pathlib import Path
from statistics import median

from scalewise.doctor.case import Abstain, Case, Window
from scalewise.doctor.checks.clock_without_synchronise import asks_for_gpu
from scalewise.doctor.finding import Check, Finding, Price, Proof, Replayed, priced_by_time
from scalewise.doctor.queries.ranks import short
from scalewise.doctor.queries.times import MOSTLY, by_line, loop_ns, settled_windows
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import INDIRECT, HostReadNote
from scalewise.records.spec import Change

CHECK = Check(
    name="read-every-step",
    group="timing",
    severity="slow",
    detects="One line reads a tensor of the GPU (.item(), .cpu(), float(), if ..., print) in four of five steps, "
    "itself or through a logger, a metric or a scheduler.",
    why="The host waits until the GPU has done all it was given; then the GPU waits until the host has handed out the "
    "next step. Neither works while the other does.",
    example="for x, y in loader:\n    loss = step(x, y)\n    total += loss.item()",
    fix="total = torch.zeros((), device=device)\nfor x, y in loader:\n    loss = step(x, y)\n"
    "    total += loss.detach()  # stays on the GPU\nprint(total.item())  # once",
    needs="a script that asks for a GPU, and five optimizer steps",
    silent="Reads now and then; reads of tensors on the host; reads of torch's own, such as a GradScaler's; on a GPU, "
    "waits too short to matter.",
)
LEAST_WAIT_NS = 100_000
LEAST_OF_STEP = 0.05
# torch also reads for its own use: a scaler the infinities it found, an optimizer its steps. These modules read what
# the script has passed to them.
_ASKED_FOR = ("torch._tensor_str", "torch.optim.lr_scheduler", "torch.nn.utils.clip_grad", "torch.utils.tensorboard")


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding for rank 0's loop, at the line that waits longest, with all other reading lines beside it."""
    if not asks_for_gpu(case):
        raise Abstain("the script asks for no GPU")
    windows = settled_windows(case)
    often = {line: reads for line, reads in _reads(case, windows).items() if len(reads) >= MOSTLY * len(windows)}
    if not often:
        return ()
    wait_ns = sum(map(_wait_ns, often.values()))
    if not case.run.spec.on_cpu and wait_ns < max(LEAST_WAIT_NS, LEAST_OF_STEP * loop_ns(windows)):
        return ()
    return (_finding(case, often, wait_ns, len(windows)),)


def _reads(case: Case, windows: tuple[Window, ...]) -> dict[PlaceRow, dict[int, list[HostReadNote]]]:
    """Returns the reads of each line of the script in each window, without those that torch makes for its own use."""
    found = {}
    for place, notes in by_line(case, windows, HostReadNote).items():
        owed = {number: [note for note in some if _is_the_scripts(note)] for number, some in notes.items()}
        found[place] = {number: some for number, some in owed.items() if some}
    return found


def _is_the_scripts(note: HostReadNote) -> bool:
    """Returns True if the script could avoid the read: it reads itself, or passes a tensor to a library that reads."""
    if not note.call.endswith(INDIRECT):
        return True
    return bool(note.by) and (note.by.startswith(_ASKED_FOR) or not f"{note.by}.".startswith("torch."))


def _wait_ns(reads: dict[int, list[HostReadNote]]) -> float:
    return median(sum(note.wait_ns for note in some) for some in reads.values())


def _finding(case: Case, often: dict[PlaceRow, dict[int, list[HostReadNote]]], wait_ns: float, windows: int) -> Finding:
    on_cpu = case.run.spec.on_cpu
    lines = sorted(often, key=lambda line: -_wait_ns(often[line]))
    first = lines[0]
    waits = "" if on_cpu else f", waiting {wait_ns / 1e6:.2f} ms per step"
    proof: Proof = "suspected" if on_cpu else "observed"
    how = "on the CPU nothing is waited for: its price on a GPU cannot be seen" if on_cpu else "measured by the host"
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"{short(first)} reads a tensor from the GPU in {len(often[first])} of {windows} steps{waits}.",
        evidence=(*(_told(line, often[line], windows) for line in lines), how),
        fix=_fix(first.text.partition("  #")[0]),
        where=first,
        also=tuple(lines[1:]),
        price=None if on_cpu else Price(wait_ns / 1e6, "ms per step", "the host waiting for the GPU", how),
        proof=proof,
        steps_seen=windows,
        change=None if on_cpu else Change("seldom_read", {"lines": ",".join(map(_line, lines))}),
    )


def _line(place: PlaceRow) -> str:
    return f"{Path(place.file).name}:{place.line}"


def _told(line: PlaceRow, reads: dict[int, list[HostReadNote]], windows: int) -> str:
    readers = sorted({note.by for some in reads.values() for note in some if note.by})
    by = f" (read by {', '.join(readers)})" if readers else ""
    return f"{short(line)} in {len(reads)} of {windows} steps: {line.text}{by}"


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding by what the loop gains if the line reads once in fifty steps; waiting may cost nothing."""
    settled = priced_by_time(finding, replayed, "the loop waiting for these reads")
    saved = replayed.saved
    if settled.proof == "replayed" or saved is None:
        return settled
    return replace(settled, proof="suspected", price=None)


def _fix(text: str) -> str:
    """Returns the line under a condition that rarely holds; a line that controls what runs next only gets a comment."""
    told = "# keep it on the GPU (.detach()) and read it now and then"
    if re.match(r"(return|yield|assert|if|elif|while|for|with)\b", text) or text.endswith(":"):
        return f"{text}  {told}, not in every step"
    return f"{told}:\nif step % 50 == 0:\n    {text}"
