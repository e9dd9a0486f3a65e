"""What lies between ranks: wires inside a node and between nodes, and what is known about them."""

from dataclasses import dataclass
from typing import Literal

Origin = Literal["measured", "catalogue", "given", "emulated"]


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

    def nodes(self, ranks: int) -> int:
        """How many nodes so many ranks fill."""
        if self.between is None or not self.ranks_per_node:
            return 1
        return -(-ranks // self.ranks_per_node)
