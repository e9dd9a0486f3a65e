"""What lies between ranks: wires inside a node and between nodes, and what is known about them."""

from bisect import bisect_left
from dataclasses import dataclass, replace
from math import exp, log
from typing import Literal

from scalewise.analysis.link_points import ALL_REDUCE

Origin = Literal["measured", "catalogue", "given", "emulated"]
Carrier = Literal["nccl", "gloo", "none"]  # none: a message takes its latency and its bytes, whatever its kind


@dataclass(frozen=True)
class Wire:
    """One kind of connection, as one rank sees it in a collective."""

    start_seconds: float  # once for a collective, whatever its size and however many take part
    hop_seconds: float  # for each neighbour that a piece of the message is passed on to
    bytes_per_second: float  # that one rank can send while it receives as much
    handled_seconds_per_byte: float = 0.0  # reading, adding and writing in the rank itself, beside the wire

    def time(self, hops: float, sent_bytes: float, handled_bytes: float) -> float:
        """Of one collective."""
        wire = sent_bytes / self.bytes_per_second
        return self.start_seconds + hops * self.hop_seconds + wire + handled_bytes * self.handled_seconds_per_byte


def slower_wire(one: Wire, other: Wire) -> Wire:
    """The worse of both in everything: what goes through one goes through the other as well."""
    return Wire(
        max(one.start_seconds, other.start_seconds),
        max(one.hop_seconds, other.hop_seconds),
        min(one.bytes_per_second, other.bytes_per_second),
        max(one.handled_seconds_per_byte, other.handled_seconds_per_byte),
    )


@dataclass(frozen=True)
class Curve:
    """Collectives as they were measured among so many ranks: what they took, by size from the smallest.

    Over loopback times bend where threads, caches and copies set in, and no straight line describes them; so nothing
    is laid through the points, and what lies between two is read off between their logarithms.
    """

    ranks: int
    sizes_bytes: tuple[float, ...]
    seconds: tuple[float, ...]
    kind: str = ALL_REDUCE

    def within(self, size_bytes: float) -> float:
        """The nearest size that lies between the smallest and the largest measured."""
        return min(max(size_bytes, self.sizes_bytes[0]), self.sizes_bytes[-1])

    def at(self, size_bytes: float) -> float:
        """Seconds of a size within."""
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
    spread: float = 0.0  # standard deviation of a time over the model's, as a share; 0: exact, as an emulated one is
    guesses: tuple[str, ...] = ()  # what a prediction over it rests on beside figures
    curves: tuple[Curve, ...] = ()  # measured times, which go before those of the wires
    carrier: Carrier = "nccl"  # whose algorithms
    most_ranks: int = 0  # that anything is known for; 0: no limit

    def nodes(self, ranks: int) -> int:
        """How many nodes so many ranks fill."""
        if self.between is None or not self.ranks_per_node:
            return 1
        return -(-ranks // self.ranks_per_node)

    def for_group(self, ranks: int, nodes: int) -> "Link":
        """As a group of so many ranks has it that lies over so many nodes; 0: over as few as hold it.

        The other ranks of its nodes are in groups like it, which send at the same time: a group has its members' share
        of what leaves a node.
        """
        if not nodes or self.between is None or not self.ranks_per_node:
            return self
        members = -(-ranks // nodes)
        share = min(1.0, members / self.ranks_per_node)
        between = replace(self.between, bytes_per_second=self.between.bytes_per_second * share)
        return replace(self, between=between if nodes > 1 else None, ranks_per_node=members)
