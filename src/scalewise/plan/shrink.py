"""The stated rule by which a model is made smaller if the machine cannot carry it.

It rests on sizes alone, never on a measured rate, so that the same request always gets the same folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Device

SIZED_BY = ("DIM", "DEPTH", "BATCH")  # the variables of the rule; the first is halved
SMALLEST = 64
BYTES_PER_WEIGHT = 20  # weight, gradient, DDP's bucket, an update and what the allocator keeps back: 5 x 4 bytes
_GIGA = 10**9


@dataclass(frozen=True)
class Shrink:
    """The limit on what one step of a model may ask of a machine."""

    gflop_per_core: float

    def rule(self) -> str:
        """The rule in words, for tables."""
        return (
            f"DIM is halved until a step (6 x BATCH x DIM^2 x DEPTH flop) is at most {self.gflop_per_core:g} GFLOP "
            f"per core and the ranks together ({BYTES_PER_WEIGHT} x DIM^2 x DEPTH bytes each) fill at most half "
            "of the memory; on GPUs only the memory counts, each by itself"
        )


def shrunk(
    env: Mapping[str, str], shrink: Shrink, machine: MachineFacts, device: Device, ranks: int
) -> tuple[dict[str, str], dict[str, str]]:
    """The variables that fit, and the values asked for in place of those that were changed.

    `ranks` is the largest world size compared, so that all of them train the same model.
    """
    dim, depth, batch = (int(env[name]) for name in SIZED_BY)
    fitting = dim
    while fitting // 2 >= SMALLEST and not _fits(fitting, depth, batch, shrink, machine, device, ranks):
        fitting //= 2
    if fitting == dim:
        return dict(env), {}
    return {**env, "DIM": str(fitting)}, {"DIM": env["DIM"]}


def _fits(dim: int, depth: int, batch: int, shrink: Shrink, machine: MachineFacts, device: Device, ranks: int) -> bool:
    bytes_per_rank = BYTES_PER_WEIGHT * dim**2 * depth
    if device == "cuda":
        return bytes_per_rank <= min(gpu.memory_bytes for gpu in machine.gpus) / 2
    flop = 6 * batch * dim**2 * depth
    enough_cores = flop <= shrink.gflop_per_core * _GIGA * len(machine.cores)
    return enough_cores and bytes_per_rank * ranks <= machine.memory_bytes / 2
