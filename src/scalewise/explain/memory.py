"""The peak of memory of an arm, by the best witness there is, and the change between two arms in words."""

from dataclasses import dataclass
from typing import Any

from scalewise.analysis.inspection import Inspection
from scalewise.analysis.memory_parts import MemoryChange, MemoryParts, memory_change, memory_parts
from scalewise.explain.arms import usable
from scalewise.explain.evidence import Evidence
from scalewise.explain.words import bytes_phrase

SAME = 0.01  # of a peak: less is no difference worth a word
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
    """Memory by purpose, from the arm's inspected run."""
    return memory_parts(evidence.inspection(experiment, **axes))


def change_of(a: MemoryParts | None, b: MemoryParts | None) -> MemoryChange | None:
    """None where one is missing."""
    return memory_change(a, b) if a and b else None


def size_change_phrase(change_bytes: int) -> str:
    """`12.0 MiB more`, `3.0 MiB less`."""
    return f"{bytes_phrase(abs(change_bytes))} {'more' if change_bytes > 0 else 'less'}"


def parts_phrase(change: MemoryChange) -> str:
    """Every part that changed, the largest first, and what is left: `half-precision copies 8 MiB more, ...`."""
    changed = sorted((item for item in change.parts.items() if item[1]), key=lambda item: -abs(item[1]))
    said = [f"{name} {size_change_phrase(size)}" for name, size in changed]
    if change.rest_bytes:
        said.append(f"the rest of the peak {size_change_phrase(change.rest_bytes)}")
    return ", ".join(said) or "no part changed"


def passing_words(change: MemoryChange | None, inspected: Inspection | None) -> str:
    """Why the rest of the peak grew, where its size gives it away: a gradient beside the sum it is added to."""
    largest = max((layer.parameter_bytes for layer in inspected.layers), default=0) if inspected else 0
    if change is None or not change.rest_bytes or not largest:
        return ""
    if abs(change.rest_bytes / largest - 1) > ONE_LAYER:
        return ""
    return f": about one layer's gradient, {bytes_phrase(largest)}, which lives beside the sum until it is added"


def memory_word(before_bytes: int, after_bytes: int) -> str:
    """`more`, `less` or `the same`, to within one percent."""
    if abs(after_bytes - before_bytes) <= SAME * max(before_bytes, 1):
        return "the same"
    return "more" if after_bytes > before_bytes else "less"
