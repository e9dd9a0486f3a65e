"""The rows that an inspected run writes beside its steps: placement, transfers, memory, gradients, use of the device.

An inspected run is watched so closely that its times mean nothing; only the timeline, taken with every device
synchronised at every layer, carries durations, and they are said to be those of the inspection. A row with `missing`
says why there is no figure; its other fields then mean nothing.
"""

from dataclasses import dataclass, field
from typing import Literal

# The uses of a tensor. `weights` includes replicas; `data` is what the script supplied; `other` is work in progress,
# such as a gradient in low precision before it is added to the real one.
PURPOSES = ("weights", "gradients", "optimizer", "activations", "half copies", "buckets", "data", "other")

Direction = Literal["forward", "backward"]
LOGICAL_PREFIX = "logical:"  # prefix of a stand-in device: `logical:1` is what the script takes for `cuda:1`


@dataclass(frozen=True)
class LayerRow:
    """A module that holds parameters of its own, in the order of the first forward pass."""

    name: str
    module: str  # class name; lines of a rank have a `kind` of their own
    device: str  # cuda:1, cpu, logical:1
    parameter_bytes: int


@dataclass(frozen=True)
class TransferRow:
    """One copy of a tensor from one device to another."""

    step: int
    direction: Direction
    source: str
    target: str
    bytes: int
    file: str  # of the script's line that asked for it; empty: no line of the script (backward)
    line: int
    text: str = ""  # of that line, as it was when the run was made


@dataclass(frozen=True)
class BusyRow:
    """The time of one layer's work on its device, with the device synchronised."""

    step: int
    device: str
    phase: Literal["forward", "backward", "optimizer"]
    layer: str
    begin_ns: int  # since the step's first forward
    end_ns: int


@dataclass(frozen=True)
class DeviceMemoryRow:
    """The largest number of bytes that tensors held on one device at once."""

    device: str
    peak_bytes: int


@dataclass(frozen=True)
class MemoryPartsRow:
    """The bytes of one step's tensors by their use; largest over the micro-batches, each storage counted once."""

    step: int
    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    activation_bytes: int  # kept for backward, weights and their copies not counted
    half_copy_bytes: int  # autocast's copies of weights in a lower precision
    bucket_bytes: int  # DDP's buckets that are not the gradients themselves
    peak_bytes: int = 0  # the most that all tensors of the step held at once, over all devices
    at_peak: dict[str, int] = field(default_factory=dict)  # bytes at that moment by purpose; keys: `PURPOSES`


@dataclass(frozen=True)
class MemoryByLineRow:
    """Bytes of a step's peak that one line of the script has made, for one purpose."""

    step: int
    purpose: str  # one of `PURPOSES`
    bytes: int
    file: str  # empty: no line of the script, such as work inside backward
    line: int
    text: str = ""  # of that line, as it was when the run was made


@dataclass(frozen=True)
class GradientRow:
    """Statistics of the gradients that an optimizer step uses, after division by the scaler's scale."""

    step: int
    elements: int
    zeros: int  # exactly zero
    non_finite: int
    norm: float  # of the finite elements
    projection: float  # onto a fixed pseudo-random direction: two gradients agree when norm and projection do


InspectionRow = LayerRow | TransferRow | BusyRow | DeviceMemoryRow | MemoryPartsRow | MemoryByLineRow | GradientRow


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
