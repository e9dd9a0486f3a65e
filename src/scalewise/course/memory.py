"""The peak of memory of an arm, by the best source there is, and its parts by purpose."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.memory_parts import MemoryParts, memory_parts
from scalewise.course.selected_arms import usable
from scalewise.records.inspection import MemoryPartsRow

HEAP = "C heap in use when backward begins"
SAME = 0.01  # of a peak: less is no difference worth a word
Sign = Literal["same", "less", "more"]


@dataclass(frozen=True)
class Peak:
    """The most memory in use at once on one rank, and how it was measured."""

    bytes: int
    witness: str


def peak_of(evidence: Evidence, experiment: str, **axes: Any) -> Peak | None:
    """Returns the allocator's peak on a GPU; on CPU ranks that of the tensors, seen by inspection; else the C heap."""
    row = usable(evidence, experiment, **axes)
    memory = row.memory if row else None
    if memory and memory.cuda_peak_allocated_bytes is not None:
        return Peak(memory.cuda_peak_allocated_bytes, "peak of torch's CUDA allocator, largest over the ranks")
    inspected = evidence.inspection(experiment, **axes)
    if inspected and inspected.peak_bytes is not None:
        return Peak(inspected.peak_bytes, "most bytes that tensors held at once on rank 0, from an inspected run")
    if memory and memory.heap_at_backward_bytes is not None:
        return Peak(memory.heap_at_backward_bytes, f"{HEAP}, largest over the ranks")
    return None


def memory_sign(before: int | None, after: int | None) -> Sign:
    """Tells whether the second peak is less or more than the first, by the one rule of all answers."""
    a, b = before or 0, after or 0
    if abs(b - a) <= SAME * max(a, 1):
        return "same"
    return "less" if b < a else "more"


def witness_notes(witnesses: Iterable[str], more: str = "") -> tuple[str, ...]:
    """The notes on what a column of memory shows; the heap of a process is not to be compared with peaks of tensors."""
    said = list(dict.fromkeys(filter(None, witnesses)))
    if not said:
        return ()
    apart = "; the whole heap of the process, so not to be compared with other tables" if HEAP in " ".join(said) else ""
    return (f"Memory: {'; or '.join(said)}{more}{apart}.",)


def parts_of(evidence: Evidence, experiment: str, **axes: Any) -> MemoryParts | None:
    """Returns memory by purpose in a steady step of the arm's inspected run."""
    inspected = evidence.inspection(experiment, **axes)
    run = evidence.run(inspected.run) if inspected else None
    rank = next((rank for rank in run.ranks if rank.inspection), None) if run else None
    rows = [row for row in (rank.inspection if rank else ()) if isinstance(row, MemoryPartsRow) and row.at_peak]
    found = memory_parts(inspected)
    if inspected is None or found is None or not rows:
        return found
    highest = max(row.peak_bytes for row in rows)
    # The first step lacks what it sets up for the others, and in one step DDP rebuilds its buckets: neither is typical.
    steady = memory_parts(replace(inspected, memory=min(rows[1:] or rows, key=lambda row: row.peak_bytes)))
    return replace(steady, outside_bytes=max(0, (inspected.peak_bytes or 0) - highest)) if steady else found
