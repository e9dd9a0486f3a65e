"""The peak of memory of an arm, by the best witness there is, and the change between two arms in words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalewise.analysis.inspection import Inspection
from scalewise.analysis.memory_parts import MemoryChange, MemoryParts, memory_change, memory_parts
from scalewise.explain.arms import usable
from scalewise.explain.evidence import Evidence
from scalewise.explain.words import bytes_phrase
from scalewise.records.inspection import MemoryPartsRow

SAME = 0.01  # of a peak: less is no difference worth a word
WORTH_A_WORD = 0.005  # of the part that changed most: a few bytes of bookkeeping explain nothing
TWICE = 1.8
ONE_LAYER = 0.2  # relative: a size this near to the largest layer's is taken for it


@dataclass(frozen=True)
class Peak:
    """The most memory at once on one rank, and who says so."""

    bytes: int
    witness: str


def peak_of(evidence: Evidence, experiment: str, **axes: Any) -> Peak | None:
    """On a GPU the allocator's own peak; on CPU ranks that of the tensors, seen by inspection; else the C heap."""
    row = usable(evidence, experiment, **axes)
    memory = row.memory if row else None
    if memory and memory.cuda_peak_allocated_bytes is not None:
        return Peak(memory.cuda_peak_allocated_bytes, "peak of torch's CUDA allocator, largest over the ranks")
    inspected = evidence.inspection(experiment, **axes)
    if inspected and inspected.peak_bytes is not None:
        return Peak(inspected.peak_bytes, "most bytes that tensors held at once on rank 0, from an inspected run")
    if memory and memory.heap_at_backward_bytes is not None:
        return Peak(memory.heap_at_backward_bytes, "C heap in use when backward begins, largest over the ranks")
    return None


def parts_of(evidence: Evidence, experiment: str, **axes: Any) -> MemoryParts | None:
    """Memory by purpose in a steady step of the arm's inspected run."""
    inspected = evidence.inspection(experiment, **axes)
    run = evidence.run(inspected.run) if inspected else None
    rank = next((rank for rank in run.ranks if rank.inspection), None) if run else None
    rows = [row for row in (rank.inspection if rank else ()) if isinstance(row, MemoryPartsRow) and row.at_peak]
    found = memory_parts(inspected)
    if inspected is None or found is None or not rows:
        return found
    highest = max(row.peak_bytes for row in rows)
    # The first step lacks what it sets up for the rest, and DDP rebuilds its buckets in one: neither is the rule.
    steady = memory_parts(replace(inspected, memory=min(rows[1:] or rows, key=lambda row: row.peak_bytes)))
    return replace(steady, outside_bytes=max(0, (inspected.peak_bytes or 0) - highest)) if steady else found


def change_of(a: MemoryParts | None, b: MemoryParts | None) -> MemoryChange | None:
    """None where one is missing, or where only one tells what existed together at its peak."""
    return memory_change(a, b) if a and b and a.at_peak == b.at_peak else None


def size_change_phrase(change_bytes: int) -> str:
    """`12.0 MiB more`, `3.0 MiB less`."""
    return f"{bytes_phrase(abs(change_bytes))} {'more' if change_bytes > 0 else 'less'}"


def parts_phrase(change: MemoryChange) -> str:
    """Every part that changed, the largest first, and what is left: `half-precision copies 8 MiB more, ...`."""
    least = WORTH_A_WORD * max((abs(size) for size in change.parts.values()), default=0)
    named = [item for item in change.parts.items() if item[1] and abs(item[1]) >= least]
    changed = sorted(named, key=lambda item: -abs(item[1]))
    said = [f"{name} {size_change_phrase(size)}" for name, size in changed]
    if change.rest_bytes:
        said.append(f"the rest of the peak {size_change_phrase(change.rest_bytes)}")
    return ", ".join(said) or "no part changed"


def passing_words(change: MemoryChange | None, inspected: Inspection | None) -> str:
    """What the added work in progress is, where its size gives it away: a gradient of the largest layer."""
    largest = max((layer.parameter_bytes for layer in inspected.layers), default=0) if inspected else 0
    if change is None or not largest:
        return ""
    added = change.parts.get("work in progress", 0) or change.rest_bytes or 0
    for size, what in (
        (largest, "one layer's gradient, {}, which lives beside the sum until it is added"),
        (largest // 2, "one layer's gradient in half precision, {}, before it is converted to float32"),
    ):
        if abs(added / size - 1) <= ONE_LAYER:
            return f"about {what.format(bytes_phrase(size))}"
    return ""


def rebuilt_words(a: MemoryParts | None, b: MemoryParts | None) -> str:
    """A peak with about twice the buckets of the other is that of DDP rebuilding them, not of what the arms compare."""
    sizes = sorted(one.parts["DDP buckets"] for one in (a, b) if one)
    if len(sizes) < 2 or not sizes[0] or sizes[1] / sizes[0] < TWICE:
        return ""
    return " One of the two peaks holds DDP's buckets twice, old and new, as when it rebuilds them."


def outside_words(every: Sequence[MemoryParts | None]) -> str:
    """What the device held beyond the tensors of the step; empty where that is nothing."""
    sizes = [one.outside_bytes for one in every if one and one.outside_bytes]
    if not sizes:
        return ""
    low, high = bytes_phrase(min(sizes)), bytes_phrase(max(sizes))
    held = low if low == high else f"{low} to {high}"
    return (
        f"Not drawn: {held} that torch's allocator held at its peak for no tensor of the step, such as workspaces of "
        "libraries."
    )


def memory_word(before_bytes: int, after_bytes: int) -> str:
    """`more`, `less` or `the same`, to within one percent."""
    if abs(after_bytes - before_bytes) <= SAME * max(before_bytes, 1):
        return "the same"
    return "more" if after_bytes > before_bytes else "less"
