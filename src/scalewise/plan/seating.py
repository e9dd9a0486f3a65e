"""The number of ranks that can really run on this machine at once, each with a place of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.plan.shares import share_size
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Device

USUAL_COUNTS = (2, 4)


@dataclass(frozen=True)
class Seating:
    """The ranks that can really run here: how many at most, and with how many cores each."""

    device: Device
    counts: tuple[int, ...]  # of two ranks or more, fewest first; empty: no two ranks fit
    cores_per_rank: int  # 0: on a GPU
    slots: int  # ranks that fit at once


def seating(facts: MachineFacts, device: Device, asked: Sequence[int]) -> Seating:
    """The numbers of ranks asked for that fit here, or two where none does."""
    if device == "cuda":
        counts = tuple(sorted({count for count in asked if 2 <= count <= len(facts.gpus)}))
        return Seating(device, counts or ((2,) if len(facts.gpus) > 1 else ()), 0, len(facts.gpus))
    cores = len(facts.cores)
    counts = tuple(sorted({count for count in asked if 2 <= count <= cores})) or ((2,) if cores > 1 else ())
    size = share_size(cores, counts or (1,))
    return Seating(device, counts, size, cores // size)


def usual_seating(facts: MachineFacts) -> Seating:
    """The seating if nobody asks for numbers of ranks: two and four, or powers of two up to all GPUs."""
    if facts.gpus:
        return seating(facts, "cuda", tuple(1 << power for power in range(1, 8)))
    return seating(facts, "cpu", USUAL_COUNTS)
