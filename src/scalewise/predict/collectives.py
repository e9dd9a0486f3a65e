"""Seconds of one collective over a link, by the algorithms that NCCL and gloo use.

Sizes are of the whole message: of an all-reduce the tensor, of an all-gather what every rank holds in the end, of a
reduce-scatter what every rank had in the beginning. A ring passes n - 1 pieces of 1/n around (twice for an all-reduce),
so each rank sends (n - 1)/n of the message once or twice; over several nodes the slower of both wires sets the pace. A
tree needs fewer hops, and sends as much: it wins on small messages, and the quicker of both is taken, as NCCL does.
"""

from collections.abc import Callable
from math import ceil, log2

from scalewise.predict.link import Link, Wire


def all_reduce(link: Link, size_bytes: float, ranks: int) -> float:
    """Ring or tree, whichever is quicker."""
    return min(_ring(link, size_bytes, ranks, rounds=2), _tree(link, size_bytes, ranks, ways=2))


def all_gather(link: Link, size_bytes: float, ranks: int) -> float:
    """Ring."""
    return _ring(link, size_bytes, ranks, rounds=1)


def reduce_scatter(link: Link, size_bytes: float, ranks: int) -> float:
    """Ring."""
    return _ring(link, size_bytes, ranks, rounds=1)


def broadcast(link: Link, size_bytes: float, ranks: int) -> float:
    """One way along a tree, piece after piece."""
    return _tree(link, size_bytes, ranks, ways=1)


def all_to_all(link: Link, size_bytes: float, ranks: int) -> float:
    """Every rank sends (n - 1)/n of what it has; with several nodes most of it leaves the node."""
    nodes, wire = link.nodes(ranks), link.inside
    inside = wire.time(ranks - 1, size_bytes * (ranks - 1) / ranks, size_bytes)
    if nodes == 1 or link.between is None:
        return inside
    per_node = min(ranks, link.ranks_per_node)
    leaving = size_bytes * per_node * (nodes - 1) / nodes
    return max(inside, link.between.time(nodes - 1, leaving, 0.0))


def send(link: Link, size_bytes: float, ranks: int) -> float:
    """To a neighbour, over the slower wire where there is one: some rank of the pipeline is at the border."""
    wire = link.between if link.nodes(ranks) > 1 and link.between is not None else link.inside
    return wire.time(1, size_bytes, 0.0)


def barrier(link: Link, size_bytes: float, ranks: int) -> float:
    """An all-reduce of nothing."""
    return all_reduce(link, 0.0, ranks)


SECONDS: dict[str, Callable[[Link, float, int], float]] = {
    "all_reduce": all_reduce,
    "all_gather": all_gather,
    "reduce_scatter": reduce_scatter,
    "broadcast": broadcast,
    "reduce": broadcast,
    "gather": all_gather,
    "scatter": reduce_scatter,
    "all_to_all": all_to_all,
    "send": send,
    "recv": send,
    "batch_isend_irecv": send,
    "barrier": barrier,
}


def seconds(link: Link, kind: str, size_bytes: float, ranks: int) -> float:
    """Of one collective among so many ranks; alone there is nothing to wait for."""
    return SECONDS[kind](link, size_bytes, ranks) * _bend(link, size_bytes, ranks) if ranks > 1 else 0.0


def _bend(link: Link, size_bytes: float, ranks: int) -> float:
    """How many times as long as the wires say an all-reduce of that size really took, where it was measured.

    Beyond the sizes that were measured it stays as at the last one; other collectives are taken to bend alike.
    """
    curve = next((one for one in link.curves if one.ranks == ranks), None)
    if curve is None:
        return 1.0
    size_bytes = curve.within(size_bytes)
    return curve.at(size_bytes) / all_reduce(link, size_bytes, ranks)


def _ring(link: Link, size_bytes: float, ranks: int, rounds: int) -> float:
    sent, handled = rounds * size_bytes * (ranks - 1) / ranks, size_bytes * rounds / 2
    nodes = link.nodes(ranks)
    if nodes == 1 or link.between is None:
        return link.inside.time(rounds * (ranks - 1), sent, handled)
    inside, between = link.inside, link.between
    hops = rounds * ((ranks - nodes) * inside.hop_seconds + nodes * between.hop_seconds)
    return max(inside.start_seconds, between.start_seconds) + hops + _slower(inside, between, sent, handled)


def _tree(link: Link, size_bytes: float, ranks: int, ways: int) -> float:
    nodes, inside = link.nodes(ranks), link.inside
    # Up and down a pair of trees in which every rank is a leaf once: each sends the message once a way.
    sent, handled = ways * size_bytes, size_bytes * ways / 2
    if nodes == 1 or link.between is None:
        return inside.time(ways * ceil(log2(ranks)), sent, handled)
    between = link.between
    chain = min(ranks, link.ranks_per_node) - 1  # within a node NCCL's tree is a chain
    hops = ways * (chain * inside.hop_seconds + ceil(log2(nodes)) * between.hop_seconds)
    return max(inside.start_seconds, between.start_seconds) + hops + _slower(inside, between, sent, handled)


def _slower(inside: Wire, between: Wire, sent_bytes: float, handled_bytes: float) -> float:
    """Pieces flow through both wires at once: the slower one sets the pace, handling comes on top."""
    wire = sent_bytes / min(inside.bytes_per_second, between.bytes_per_second)
    return wire + handled_bytes * max(inside.handled_seconds_per_byte, between.handled_seconds_per_byte)
