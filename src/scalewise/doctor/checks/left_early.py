"""Detects a rank that ends in order while the others wait for it in an operation that it used to enter."""

from scalewise.doctor.case import Case
from scalewise.doctor.checks.collective_on_some_ranks import left_before
from scalewise.doctor.checks.uneven_ranks import uneven
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.inputs import replica_groups
from scalewise.doctor.queries.ranks import (
    ENDED_BADLY,
    Operation,
    RankState,
    first_mismatch,
    missing_ranks,
    outcome_of_ranks,
    rank_states,
    sequences,
    short,
)
from scalewise.records.examination import PlaceRow
from scalewise.units import counted, named_ranks

CHECK = Check(
    name="left-early",
    group="hang",
    severity="wrong",
    detects="A rank leaves the loop and ends with exit code 0 while others wait for its part of a collective.",
    why="Early stopping, a return or an exit that depends on what one rank alone has seen leaves the others in a "
    "collective that never ends, or kills them with a closed connection.",
    example="if loss.item() < target:  # of this rank's own batch\n    break",
    fix="done = torch.tensor(int(loss.item() < target))\n"
    "dist.all_reduce(done, op=dist.ReduceOp.MIN)\nif done:\n    break",
    needs="a run of two or more ranks; when it ended badly, which rank had ended in order before",
    silent="Ranks that leave together; a rank that leaves when nobody needs it any more; loaders of different length, "
    "which is another mistake.",
)


def examine(case: Case) -> tuple[Finding, ...]:
    """Looks for ranks that had ended while another one was blocked in an operation that they used to enter."""
    outcome = outcome_of_ranks(case)
    stood = rank_states(case)
    if outcome.kind not in ENDED_BADLY or not any(state.left for state in stood.values()):
        return ()
    if any(uneven(case, group) for group in replica_groups(case)):
        return ()
    for by_rank in sequences(case, stood).values():
        waiting = None if first_mismatch(by_rank) else missing_ranks(by_rank, stood)
        if waiting is not None:
            gone = [stood[rank] for rank in waiting[1] if stood[rank].left]
            gone = [one for one in gone if left_before(one, *waiting, by_rank)]
            if gone:
                return (_finding(case, gone, waiting[0], stood, by_rank),)
    return ()


def _finding(
    case: Case,
    gone: list[RankState],
    operation: Operation,
    stood: dict[int, RankState],
    by_rank: dict[int, list[Operation]],
) -> Finding:
    waiting = [one for one in stood.values() if one.blocked]
    ranks = [one.rank for one in gone]
    made = ", ".join(f"rank {rank} {len(operations)}" for rank, operations in by_rank.items())
    left = min(one.steps for one in gone)
    most = max(one.steps for one in waiting)
    others = named_ranks([one.rank for one in waiting], small=True)
    at = f" at {short(operation.place)}" if operation.place else ""
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"{named_ranks(ranks)} left after {counted(left, 'step')} while {others} waited in "
        f"{operation.told()}{at}, in step {most + 1}.",
        evidence=(
            *(state.told() for state in stood.values()),
            f"collectives entered until the end: {made}",
            f"how the run ended: {case.run.outcome.sentence if case.run.outcome else 'not known'}",
        ),
        fix="done = torch.tensor(int(done))  # what this rank alone would decide\n"
        "dist.all_reduce(done, op=dist.ReduceOp.MAX)  # every step, on every rank: all stop when one does\n"
        "if done:\n    break",
        where=operation.place,
        also=_last_lines(case, ranks),
        price=Price(left, "steps", "made before the run could not go on", "counted"),
        ranks=tuple(ranks),
        steps_seen=left,
    )


def _last_lines(case: Case, gone: list[int]) -> tuple[PlaceRow, ...]:
    """Returns the last line that was seen of each rank that left."""
    found = []
    for rank in case.ranks:
        if rank.rank in gone:
            places = [place for note in rank.notes[-3:] if (place := rank.place(note)) is not None]
            found += places[-1:]
    return tuple(dict.fromkeys(found))
