"""Placements of ranks on nodes, evenly or not, such as 1124 for four nodes with 1, 1, 2 and 4 GPUs."""

import re
from dataclasses import dataclass

from scalewise.errors import BadRequest

MOST_NODES = 65_536  # a larger number is a typing mistake
MOST_PER_NODE = 1_000


@dataclass(frozen=True)
class Placement:
    """The number of GPUs on each node, the fewest first."""

    per_node: tuple[int, ...]

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return sum(self.per_node)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.per_node)

    @property
    def busiest(self) -> int:
        """The GPUs of the node that has the most."""
        return max(self.per_node)

    def as_large_as(self, other: "Placement") -> bool:
        """Returns whether both have as many GPUs on as many nodes, spread evenly or not."""
        return (self.gpus, self.nodes) == (other.gpus, other.nodes)

    @property
    def text(self) -> str:
        """The placement for people: `4 nodes x 8`, `1 GPU`, or `nodes of 1+1+2+4`."""
        if self.nodes == 1:
            return f"{self.gpus} GPU{'s' * (self.gpus != 1)}"
        if len(set(self.per_node)) == 1:
            return f"{self.nodes} nodes x {self.busiest}"
        return f"nodes of {'+'.join(map(str, self.per_node))}"


def even_placement(nodes: int, gpus: int) -> Placement:
    """The GPUs spread over the nodes as evenly as they can be."""
    each, over = divmod(gpus, nodes)
    return Placement((each,) * (nodes - over) + (each + 1,) * over)


def read_placement(text: str) -> Placement:
    """The placement from one digit a node (1124), or from numbers with a plus between (16+16)."""
    words = text.split("+") if "+" in text else list(text)
    if not words or not all(re.fullmatch(r"[1-9][0-9]{0,5}", word) for word in words):
        raise BadRequest(
            f"The placement {text[:40]!r} says no GPUs of each node.",
            "Write one digit for each node, such as 1124, or numbers with a plus between them, such as 16+16.",
        )
    return Placement(tuple(sorted(map(int, words))))
