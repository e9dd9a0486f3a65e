"""Detects a collective that only some ranks enter, so that they wait for ever or meet a different one."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.doctor.case import Case
from scalewise.doctor.checks.send_send import ring_of
from scalewise.doctor.checks.uneven_ranks import uneven
from scalewise.doctor.finding import Check, Finding, Price, Proof
from scalewise.doctor.queries.inputs import replica_groups
from scalewise.doctor.queries.ranks import (
    BACKWARD,
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
from scalewise.records.notes import BUFFERS
from scalewise.units import named_ranks

CHECK = Check(
    name="collective-on-some-ranks",
    group="hang",
    severity="wrong",
    detects="Some ranks enter a collective that the others never enter, or enter another one in its place.",
    why="A collective ends only when all ranks of its group have entered it. The run stands until a timeout, or two "
    "different collectives meet and crash with a message about sizes or connections.",
    example="if rank == 0:\n    dist.all_reduce(loss)\n    print(loss)",
    fix="dist.all_reduce(loss)\nif rank == 0:\n    print(loss)",
    needs="a run of two or more ranks; when it ended badly, the order of collectives on each",
    silent="Runs that end in order; ranks that are only slow; groups of which a rank is no member; messages between "
    "two ranks; loaders of different length, which is another mistake.",
)


@dataclass(frozen=True)
class _Mismatch:
    """The point at which the ranks of a group diverged."""

    lonely: Operation  # the operation that not all ranks entered
    inside: list[int]  # the ranks that entered it
    outside: list[int]
    by_rank: dict[int, list[Operation]]
    proof: Proof = "observed"


def examine(case: Case) -> tuple[Finding, ...]:
    """Compares the order of collectives between the ranks of each group, if the run ended badly."""
    outcome = outcome_of_ranks(case)
    if outcome.kind not in ENDED_BADLY:
        return ()
    stood = rank_states(case)
    if ring_of(stood) or any(uneven(case, group) for group in replica_groups(case)):
        return ()
    for by_rank in sequences(case, stood).values():
        mismatch = _mismatch(by_rank, stood, stood_still=outcome.kind not in ("raised", "killed"))
        if mismatch is not None:
            return (_finding(case, mismatch, stood),)
    return ()


def _mismatch(by_rank: dict[int, list[Operation]], stood: dict[int, RankState], stood_still: bool) -> _Mismatch | None:
    different = first_mismatch(by_rank)
    if different is not None:
        lonely = min(different.values(), key=lambda operation: _lonely(operation, by_rank))
        inside = [rank for rank, operation in different.items() if operation.matches(lonely)]
        return _Mismatch(lonely, inside, [rank for rank in by_rank if rank not in inside], by_rank)
    waiting = missing_ranks(by_rank, stood)
    if waiting is None or any(stood[rank].left and left_before(stood[rank], *waiting, by_rank) for rank in waiting[1]):
        return None
    operation, missing = waiting
    inside = [rank for rank in by_rank if rank not in missing]
    # A rank that computes may still be on its way; one that has left or waits elsewhere is not.
    sure = all(stood[rank].left or stood[rank].blocked for rank in missing)
    if not sure and not stood_still:
        return None  # the others miss a rank that failed by itself; its failure is reported elsewhere
    return _Mismatch(operation, inside, missing, by_rank, "observed" if sure else "suspected")


def _lonely(operation: Operation, by_rank: dict[int, list[Operation]]) -> tuple[int, bool, int]:
    """Returns a sort key: first operations whose line fewest ranks reached, then the script's own, then rare ones."""
    runs = [sum(one.line == operation.line for one in operations) for operations in by_rank.values()]
    return sum(map(bool, runs)), operation.name == BACKWARD, sum(runs)


def left_before(
    gone: RankState, operation: Operation, missing: Sequence[int], by_rank: dict[int, list[Operation]]
) -> bool:
    """Returns True if a rank that has left would have come here: it was here before, or made fewer steps."""
    been = any(one.line == operation.line for one in by_rank[gone.rank])
    furthest = max(len(operations) for rank, operations in by_rank.items() if rank not in missing)
    made = sum(one.name == BACKWARD for one in by_rank[gone.rank])
    most = max(sum(one.name == BACKWARD for one in operations[: furthest - 1]) for operations in by_rank.values())
    return been or made < most


def _finding(case: Case, mismatch: _Mismatch, stood: dict[int, RankState]) -> Finding:
    lonely = mismatch.lonely
    steps = min(state.steps for state in stood.values())
    outcome = case.run.outcome
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=_sentence(mismatch, stood),
        evidence=(
            *(state.told() for state in stood.values()),
            _counts(mismatch),
            f"how the run ended: {outcome.sentence if outcome else 'not known'}",
        ),
        fix=_fix(lonely, mismatch.inside),
        where=lonely.place,
        also=_others(mismatch, stood),
        price=Price(steps, "steps", "made before the run could not go on", "counted"),
        proof=mismatch.proof,
        ranks=tuple(sorted((*mismatch.inside, *mismatch.outside))),
        steps_seen=steps,
    )


def _sentence(mismatch: _Mismatch, stood: dict[int, RankState]) -> str:
    lonely = mismatch.lonely
    at = f" at {short(lonely.place)}" if lonely.place else ""
    enter = "enters" if len(mismatch.inside) == 1 else "enter"
    other = stood[mismatch.outside[0]]
    there = f" at {short(other.place)}" if other.place else ""
    if other.left:
        elsewhere = f"{named_ranks(mismatch.outside, small=True)} had left"
    elif other.operation is not None:
        elsewhere = f"{named_ranks(mismatch.outside, small=True)} was in {other.operation.told()}{there}"
    else:
        elsewhere = f"{named_ranks(mismatch.outside, small=True)} did not reach it{there}"
    return f"{named_ranks(mismatch.inside)} {enter} {lonely.told()}{at}, while {elsewhere}."


def _counts(mismatch: _Mismatch) -> str:
    line = mismatch.lonely.line
    runs = ", ".join(
        f"{sum(one.line == line for one in operations)} on rank {rank}" for rank, operations in mismatch.by_rank.items()
    )
    return f"times that line was come to: {runs}"


def _others(mismatch: _Mismatch, stood: dict[int, RankState]) -> tuple[PlaceRow, ...]:
    places = [stood[rank].place for rank in mismatch.outside]
    return tuple(dict.fromkeys(place for place in places if place is not None and place != mismatch.lonely.place))


def _fix(lonely: Operation, inside: Sequence[int]) -> str:
    text = lonely.place.text.partition("  #")[0] if lonely.place else f"dist.{lonely.name}(...)"
    if lonely.name == BACKWARD:
        return f"{text}  # as often on every rank: no rank may skip a step that the others make"
    if lonely.name == BUFFERS:
        return f"{text}  # call model.module, not model, where {named_ranks(inside, small=True)} evaluates alone"
    return f"{text}  # on every rank: move it out of the branch that only {named_ranks(inside, small=True)} took"
