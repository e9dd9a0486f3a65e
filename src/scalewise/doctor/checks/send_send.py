"""Detects ranks that all send to each other, or all receive from each other, before any does the opposite."""

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.ranks import ENDED_BADLY, RankState, outcome_of_ranks, rank_states, short
from scalewise.units import named_ranks

CHECK = Check(
    name="send-send",
    group="hang",
    severity="wrong",
    detects="Two or more ranks are blocked in a send to each other, or in a recv from each other, in a ring.",
    why="A blocking send may wait until its receiver is ready. When everybody sends first, nobody ever receives, "
    "and the run stands.",
    example="dist.send(mine, dst=other)\ndist.recv(theirs, src=other)  # the same order on both ranks",
    fix="requests = [dist.isend(mine, dst=other), dist.irecv(theirs, src=other)]\n"
    "for request in requests:\n    request.wait()",
    needs="a run of two or more ranks; when it stood still, the message each rank was in",
    silent="Messages that arrive, in whatever order; pipelines whose ends send and receive in turn.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Looks for a ring of ranks that each wait for the next one, all in the same direction."""
    if outcome_of_ranks(case).kind not in ENDED_BADLY:
        return ()
    ring = ring_of(rank_states(case))
    return (_finding(case, ring),) if ring else ()


def ring_of(stood: dict[int, RankState]) -> tuple[RankState, ...]:
    """Returns the ranks of a ring in the order in which they wait for each other; empty if there is none."""
    waits_for = {
        rank: state.operation.peer
        for rank, state in stood.items()
        if state.blocked and state.operation is not None and state.operation.name in ("send", "recv")
    }
    for start in waits_for:
        way = [start]
        while waits_for.get(way[-1]) not in (None, *way):
            way.append(waits_for[way[-1]])
        ring = tuple(stood[rank] for rank in way if rank in waits_for)
        directions = {state.operation.name for state in ring if state.operation is not None}
        if len(ring) == len(way) > 1 and waits_for[way[-1]] == start and len(directions) == 1:
            return ring
    return ()


def _finding(case: Case, ring: tuple[RankState, ...]) -> Finding:
    names = {state.operation.name for state in ring if state.operation is not None}
    name = names.pop()
    ranks = [state.rank for state in ring]
    places = list(dict.fromkeys(state.place for state in ring if state.place is not None))
    lines = ", ".join(dict.fromkeys(short(place) for place in places))
    doing = "sends to" if name == "send" else "receives from"
    arrows = ", ".join(f"rank {one.rank} {doing} rank {one.operation.peer}" for one in ring if one.operation)
    opposite = "receives" if name == "send" else "sends"
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"{named_ranks(sorted(ranks))} wait for each other in a blocking {name} at {lines}: {arrows}, and "
        f"nobody {opposite}.",
        evidence=(
            *(state.told() for state in ring),
            f"how the run ended: {case.run.outcome.sentence if case.run.outcome else 'not known'}",
        ),
        fix="requests = [dist.isend(outgoing, dst), dist.irecv(incoming, src)]  # neither waits for the other\n"
        "for request in requests:\n    request.wait()",
        where=places[0] if places else None,
        also=tuple(places[1:]),
        price=Price(min(one.steps for one in ring), "steps", "made before the run could not go on", "counted"),
        ranks=tuple(sorted(ranks)),
        steps_seen=min(one.steps for one in ring),
    )
