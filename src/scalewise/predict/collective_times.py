"""Seconds of one collective over a link, by the algorithms that NCCL and gloo use.

Sizes are of the whole message: for an all-reduce the tensor, for an all-gather what every rank holds in the end, for a
reduce-scatter what every rank had in the beginning. A ring passes n - 1 pieces of 1/n around (twice for an all-reduce),
so each rank sends (n - 1)/n of the message once or twice; over several nodes the slower of both wires decides.

NCCL has a tree beside the ring, for all-reduces only: a chain within a node, a pair of trees between nodes. It needs
fewer hops, and sends as much: it is quicker for small messages, and the quicker of both is taken, as NCCL does. gloo
has no tree for them. In torch, its reduce-scatter is an all-reduce of which a piece is kept, and its broadcast passes
the whole message from level to level.
"""

from collections.abc import Callable
from math import ceil, log2

from scalewise.analysis.fits import ALL_REDUCE
from scalewise.predict.link import Link, LinkCurve, Wire, slower_wire
from scalewise.records.collectives import KINDS, TimeLaw


def all_reduce(link: Link, size_bytes: float, ranks: int) -> float:
    """The time of an all-reduce: by a ring, or over several nodes by NCCL's tree, whichever is quicker."""
    ring = _ring(link, size_bytes, ranks, rounds=2)
    if link.carrier != "nccl" or link.between is None or link.nodes(ranks) == 1:
        return ring
    return min(ring, _tree(link, link.between, size_bytes, ranks))


def once_around(link: Link, size_bytes: float, ranks: int) -> float:
    """The time of an all-gather or of a reduce-scatter by a ring."""
    return _ring(link, size_bytes, ranks, rounds=1)


def passed_around(link: Link, size_bytes: float, ranks: int) -> float:
    """The time of a broadcast along the ring, piece by piece: every rank but the last passes the whole message on."""
    return _around(link, ranks, ranks - 1, size_bytes, size_bytes / 2)


def level_by_level(link: Link, size_bytes: float, ranks: int) -> float:
    """The time of a binomial tree in which a rank receives the whole message before it passes it on."""
    wire = _sending_wire(link, ranks)
    return wire.start_seconds + ceil(log2(ranks)) * (wire.hop_seconds + size_bytes / wire.bytes_per_second)


def each_to_each(link: Link, size_bytes: float, ranks: int) -> float:
    """The time of an all-to-all: each rank sends (n - 1)/n of what it has, with several nodes mostly to other nodes."""
    nodes, wire = link.nodes(ranks), link.inside
    inside = wire.time(ranks - 1, size_bytes * (ranks - 1) / ranks, size_bytes)
    if nodes == 1 or link.between is None:
        return inside
    per_node = min(ranks, link.ranks_per_node)
    leaving = size_bytes * per_node * (nodes - 1) / nodes
    return max(inside, link.between.time(nodes - 1, leaving, 0.0))


def to_a_neighbour(link: Link, size_bytes: float, ranks: int) -> float:
    """The time of a message to a neighbour, over the slower wire if there are two: some rank sends to another node."""
    wire = link.between if link.nodes(ranks) > 1 and link.between is not None else link.inside
    return wire.time(1, size_bytes, 0.0)


LAWS: dict[TimeLaw, Callable[[Link, float, int], float]] = {
    "all_reduce": all_reduce,
    "once_around": once_around,
    "passed_around": passed_around,
    "level_by_level": level_by_level,
    "each_to_each": each_to_each,
    "to_a_neighbour": to_a_neighbour,
}


def seconds(link: Link, kind: str, size_bytes: float, ranks: int, nodes: int = 0) -> float:
    """The time of one collective among this many ranks on this many nodes (0: as few as hold them); 0 for one rank."""
    if ranks <= 1:
        return 0.0
    link = link.for_group(ranks, nodes)
    return by_wires(link, kind, size_bytes, ranks) * _bend(link, kind, size_bytes, ranks)


def by_wires(link: Link, kind: str, size_bytes: float, ranks: int) -> float:
    """The time that the wires give, by the algorithm of the link's carrier; without one the same for every kind."""
    if link.carrier == "none":
        return link.inside.time(0, size_bytes, 0.0)
    does = KINDS[kind]
    law = does.gloo if link.carrier == "gloo" and does.gloo else does.law
    return LAWS[law](link, 0.0 if does.signal else size_bytes, ranks)


def unmeasured(link: Link, kinds: set[str]) -> tuple[str, ...]:
    """The kinds that were not measured on a measured link, so that their times follow from those of all-reduces."""
    known = {curve.kind for curve in link.curves}
    return tuple(sorted(kind for kind in kinds - known if not KINDS[kind].signal)) if link.curves else ()


def placed_curve(link: Link, ranks: int) -> LinkCurve | None:
    """The measured all-reduces that tell most of those among so many ranks; None if the wires alone do.

    Inside a node they are those of as many ranks: the wires describe any number. On several nodes two wires together
    describe them less well, and the measured number of ranks that comes nearest tells by how much.
    """
    curves = [one for one in link.curves if one.kind == ALL_REDUCE and one.nodes == link.nodes(one.ranks)]
    if link.nodes(ranks) == 1:
        return next((one for one in curves if one.ranks == ranks), None)
    several = [one for one in curves if one.nodes > 1]
    return min(several, key=lambda one: abs(one.ranks - ranks), default=None)


def _bend(link: Link, kind: str, size_bytes: float, ranks: int) -> float:
    """The measured time of a collective of that size over the time that the wires give; 1 if it was not measured.

    Beyond the measured sizes it stays as at the last one. A kind that was not measured is taken to deviate as
    all-reduces do; one that was takes its ratio from the nearest number of ranks for which it was.
    """
    of_kind = [one for one in link.curves if one.kind == kind and one.nodes == link.nodes(one.ranks)]
    nearest = min(of_kind, key=lambda curve: abs(curve.ranks - ranks), default=None)
    if kind == ALL_REDUCE or nearest is None:
        nearest = placed_curve(link, ranks)
    return _longer(link, nearest, size_bytes) if nearest is not None else 1.0


def _longer(link: Link, curve: LinkCurve, size_bytes: float) -> float:
    """The ratio of a measured time to the one that the wires give for that size."""
    size_bytes = curve.within(size_bytes)
    return curve.at(size_bytes) / by_wires(link, curve.kind, size_bytes, curve.ranks)


def _ring(link: Link, size_bytes: float, ranks: int, rounds: int) -> float:
    return _around(
        link, ranks, rounds * (ranks - 1), rounds * size_bytes * (ranks - 1) / ranks, size_bytes * rounds / 2
    )


def _around(link: Link, ranks: int, hops: int, sent_bytes: float, handled_bytes: float) -> float:
    """The time of this many hops along the ring of all ranks, with as many of them between nodes as there are nodes."""
    nodes, inside, between = link.nodes(ranks), link.inside, link.between
    if nodes == 1 or between is None:
        return inside.time(hops, sent_bytes, handled_bytes)
    leaving = nodes / ranks
    hop = (1 - leaving) * inside.hop_seconds + leaving * between.hop_seconds
    start = max(inside.start_seconds, between.start_seconds)
    return start + hops * hop + _slower(inside, between, sent_bytes, handled_bytes)


def _tree(link: Link, between: Wire, size_bytes: float, ranks: int) -> float:
    """The time up and down a pair of trees in which every rank is a leaf once: each sends the message once a way."""
    nodes, inside = link.nodes(ranks), link.inside
    chain = min(ranks, link.ranks_per_node) - 1
    hops = 2 * (chain * inside.hop_seconds + ceil(log2(nodes)) * between.hop_seconds)
    start = max(inside.start_seconds, between.start_seconds)
    return start + hops + _slower(inside, between, 2 * size_bytes, size_bytes)


def _slower(inside: Wire, between: Wire, sent_bytes: float, handled_bytes: float) -> float:
    """The time of pieces that flow through both wires at once: the slower wire decides, and handling is added."""
    wire = sent_bytes / min(inside.bytes_per_second, between.bytes_per_second)
    return wire + handled_bytes * max(inside.handled_seconds_per_byte, between.handled_seconds_per_byte)


def _sending_wire(link: Link, ranks: int) -> Wire:
    return slower_wire(link.inside, link.between) if link.between and link.nodes(ranks) > 1 else link.inside
