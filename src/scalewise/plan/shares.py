"""Divides cores into logical devices: every rank has an equal share, of one size for all world sizes compared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


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
