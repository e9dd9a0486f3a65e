"""The rows that an inspected run writes beside its steps: placement, transfers, memory, and gradients.

An inspected run is watched so closely that its times mean nothing; only the timeline, taken with every device
synchronised at every layer, carries durations, and they are said to be those of the inspection.
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
