"""The connections between ranks: wires inside a node and between nodes, and what is known about them."""

from bisect import bisect_left
from dataclasses import dataclass, replace
from math import exp, log
from typing import Literal

from scalewise.analysis.fits import ALL_REDUCE

Origin = Literal["measured", "catalogue", "given", "emulated"]
Carrier = Literal["nccl", "gloo", "none"]  # none: a message takes its latency and its bytes, whatever its kind


@dataclass(frozen=True)
class Wire:
    """One kind of connection, as one rank sees it in a collective."""

    start_seconds: float  # once per collective, whatever its size and number of ranks
    hop_seconds: float  # for each neighbour to which a piece of the message is passed
    bytes_per_second: float  # that one rank can send while it receives at the same rate
    handled_seconds_per_byte: float = 0.0  # reading, adding and writing in the rank itself, beside the wire

    def time(self, hops: float, sent_bytes: float, handled_bytes: float) -> float:
        """The time of one collective."""
        wire = sent_bytes / self.bytes_per_second
        return self.start_seconds + hops * self.hop_seconds + wire + handled_bytes * self.handled_seconds_per_byte


def slower_wire(one: Wire, other: Wire) -> Wire:
    """A wire with the worse value of both in every respect: what passes through one also passes through the other."""
    return Wire(
        max(one.start_seconds, other.start_seconds),
        max(one.hop_seconds, other.hop_seconds),
        min(one.bytes_per_second, other.bytes_per_second),
        max(one.handled_seconds_per_byte, other.handled_seconds_per_byte),
    )


@dataclass(frozen=True)
class LinkCurve:
    """Measured collectives among one number of ranks: their times by size, the smallest first.

    Over loopback, times do not follow a straight line, because threads, caches and copies set in at certain sizes; so
    none is fitted, and a time between two points is interpolated on logarithmic axes.
    """

    ranks: int
    sizes_bytes: tuple[float, ...]
    seconds: tuple[float, ...]
    kind: str = ALL_REDUCE
    nodes: int = 1  # on which the ranks lay, equally many on each

    def within(self, size_bytes: float) -> float:
        """The nearest size between the smallest and the largest measured one."""
        return min(max(size_bytes, self.sizes_bytes[0]), self.sizes_bytes[-1])

    def at(self, size_bytes: float) -> float:
        """The time for a size within the measured range."""
        index = bisect_left(self.sizes_bytes, size_bytes)
        if index == 0 or self.sizes_bytes[index] == size_bytes:
            return self.seconds[index]
        low, high = log(self.sizes_bytes[index - 1]), log(self.sizes_bytes[index])
        share = (log(size_bytes) - low) / (high - low)
        return exp((1 - share) * log(self.seconds[index - 1]) + share * log(self.seconds[index]))


@dataclass(frozen=True)
class Link:
    """The wires of a machine or a cluster, where their figures come from, and how well they describe it."""

    name: str
    inside: Wire  # between ranks of one node
    between: Wire | None = None  # between nodes, for all ranks of a node together; None: everything is one node
    ranks_per_node: int = 0  # 0: no limit
    origin: Origin = "given"
    source: str = ""  # who measured or published it
    spread: float = 0.0  # standard deviation of measured over model time, as a share; 0: exact, as for an emulated link
    guesses: tuple[str, ...] = ()  # assumptions of a prediction over it beside its figures
    curves: tuple[LinkCurve, ...] = ()  # measured times, which replace those of the wires
    carrier: Carrier = "nccl"  # the library whose algorithms apply
    most_ranks: int = 0  # the largest number for which anything is known; 0: no limit

    def nodes(self, ranks: int) -> int:
        """The number of nodes that this many ranks fill."""
        if self.between is None or not self.ranks_per_node:
            return 1
        return -(-ranks // self.ranks_per_node)

    def for_group(self, ranks: int, nodes: int) -> "Link":
        """The link as seen by a group of this many ranks on this many nodes; 0: on as few as hold it.

        The other ranks of its nodes are in groups like it, which send at the same time: a group has its members' share
        of what leaves a node.
        """
        if not nodes or self.between is None or not self.ranks_per_node:
            return self
        members = -(-ranks // nodes)
        share = min(1.0, members / self.ranks_per_node)
        between = replace(self.between, bytes_per_second=self.between.bytes_per_second * share)
        # Times between nodes were measured of one group that had the nodes to itself.
        curves = self.curves if share == 1.0 else tuple(one for one in self.curves if one.nodes == 1)
        return replace(self, between=between if nodes > 1 else None, ranks_per_node=members, curves=curves)
