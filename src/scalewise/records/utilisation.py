"""The rows that an inspected run writes about the use of its device: work, time by kernel family, CPU time.

A row with `missing` says why there is no figure; its other fields then mean nothing.
"""

from dataclasses import dataclass, field

# Kinds of work that kernels and operators do; `watch/families.py` says which name belongs to which.
FAMILIES = (
    "matmul",
    "attention",
    "convolution",
    "normalisation",
    "elementwise",
    "reduction",
    "indexing",
    "copy",
    "optimizer",
    "communication",
    "other",
)
HOST = "host"  # time of a CPU step in which no operator runs: Python, torch's own bookkeeping, waiting


@dataclass(frozen=True)
class WorkRow:
    """Floating-point operations and bytes of one step, recorded operator by operator.

    A fused multiply-add is two operations. Only matrix products, convolutions and attention count, as is the custom.
    """

    step: int
    method: str  # "dispatch", or "profile" where a dispatch mode would change what is compiled
    flops: dict[str, int] = field(default_factory=dict)  # by precision: float32, tf32, bfloat16, ...
    recomputed: dict[str, int] = field(default_factory=dict)  # the part of `flops` that activation checkpoints repeat
    operand_bytes: int | None = None  # inputs and results of all operators, each once; None: not seen
    streamed_bytes: int | None = None  # the part in tensors larger than the cache, which must come from memory
    cache_bytes: int | None = None  # of that cache
    missing: str = ""


@dataclass(frozen=True)
class ProfileRow:
    """The time of one step by kernel family, from torch's profiler."""

    step: int
    device: str  # cuda: times are those of kernels; cpu: those of operators in the main thread
    wall_ns: int = 0  # of the profiled step, device synchronised at both ends
    busy_ns: int = 0  # time in which some kernel ran; cpu: some operator. Mean over the devices of the process
    launches: int = 0  # kernels and copies; cpu: operators
    families: dict[str, int] = field(default_factory=dict)  # nanoseconds; cpu: with `host` they add up to the step
    other: dict[str, int] = field(default_factory=dict)  # the largest names of the family `other`
    uncounted: dict[str, int] = field(default_factory=dict)  # names that may hold work that no flop formula knows
    missing: str = ""


@dataclass(frozen=True)
class CpuTimeRow:
    """CPU time of the process in some steps without close inspection."""

    steps: int
    wall_ns: int
    cpu_ns: int
    threads: int  # of torch


UtilisationRow = WorkRow | ProfileRow | CpuTimeRow
UTILISATION_KINDS: dict[str, type[WorkRow | ProfileRow | CpuTimeRow]] = {
    "work": WorkRow,
    "profile": ProfileRow,
    "cpu_time": CpuTimeRow,
}
