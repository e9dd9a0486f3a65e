"""Divides cores into logical devices, and tells how many ranks can run at once, each on a device of its own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Device


@dataclass(frozen=True)
class Seats:
    """The cores given to the ranks of one run."""

    shares: tuple[tuple[int, ...], ...]  # cores of each rank
    oversubscribed: bool  # some ranks share their cores with others


def share_size(cores: int, ranks: Iterable[int]) -> int:
    """Cores per rank: the share that each rank has at the largest world size that fits."""
    fitting = [count for count in ranks if count <= cores]
    return max(1, cores // max(fitting, default=cores or 1))


def seats(cores: Sequence[int], ranks: int, world_sizes: Iterable[int]) -> Seats:
    """The shares of `ranks` ranks in an experiment over these world sizes; a lone rank gets one share."""
    size = share_size(len(cores), world_sizes)
    usable = sorted(cores)
    shares = [tuple(usable[start : start + size]) for start in range(0, len(usable) - size + 1, size)]
    if not shares:
        return Seats((), False)
    return Seats(tuple(shares[rank % len(shares)] for rank in range(ranks)), ranks > len(shares))


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
