"""Decides how the ranks of a run relate: data parallel, sharded, tensor parallel, stages of a pipeline, or apart.

It is decided once, here, from what the watcher recorded between the first module call and the end of each step. The
tables, the doctor and predictions all read the same value. Decision 0018 gives the reasons.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from scalewise.records.load import RankRecord, Run
from scalewise.records.rows import StepRow
from scalewise.records.traffic import Moment, StepTraffic, Traffic
from scalewise.units import counted

RelationKind = Literal["alone", "data parallel", "sharded", "tensor parallel", "pipeline", "apart", "unknown"]

LEAST_STEPS = 2
MOSTLY = 0.5  # of the steps: more than this share shows what a loop does
BOOKKEEPING_BYTES = 64  # in one step, in forward or backward: less is a loss, a count or a decision, no activation
GRADIENT_SHARE = 0.05  # of the parameters' bytes: compressed gradients are more, losses and counts far less
MODEL_SHARE = 0.5  # of the parameters' bytes: models are averaged whole, at least in half precision
WHOLE_SHARE = (0.9, 1.1)  # of the parameters' bytes: every gradient once, and nothing else
APART = 1e-4  # losses of ranks that compute the same on the same data differ by rounding, which is far less
EQUAL = 1e-9  # sums of equal parameters differ only by their order; so do losses of the same training
BY_AVERAGING = "averaging of the parameters"
BY_REDUCING = "a reduction of the gradients that the script makes itself"
PASSING_ON: frozenset[Moment] = frozenset({"forward", "backward"})  # a first stage sends before its backward pass
EXCHANGING: frozenset[Moment] = frozenset({"update"})  # gradients sent from rank to rank, as in a ring


@dataclass(frozen=True)
class Relation:
    """The way in which the ranks of a run relate to each other, and the evidence for it."""

    kind: RelationKind
    how: str = ""  # DistributedDataParallel, FSDP, DTensor, a reduction by hand, ...
    evidence: str = ""  # what was seen, worded as the end of a sentence
    ranks: int = 1
    feeding: tuple[int, ...] = ()  # ranks whose samples count, each batch once; in a rehearsal only the first of them
    batches: int | None = None  # different batches in one step; None: not known
    samples: float | None = None  # in one step of a pipeline, whose pieces are counted at its first stage

    @property
    def shares_batches(self) -> bool:
        """Tells whether several ranks work on one batch."""
        return self.kind in ("tensor parallel", "pipeline")


ALONE = Relation("alone", evidence="there is one rank", batches=1)


@dataclass(frozen=True)
class _Seen:
    """The ranks that made steps, with what they exchanged."""

    world: int
    ranks: tuple[RankRecord, ...]
    traffic: tuple[Traffic, ...]
    parameter_bytes: int
    rehearsed: bool  # it received nothing from other ranks: its results are not those of a real run

    @property
    def steps(self) -> int:
        """The number of steps of the rank that made the fewest."""
        return min(one.count for one in self.traffic)

    def steps_with(self, found: Callable[[StepTraffic], bool]) -> int:
        """The number of matching steps, for the rank that has most of them."""
        return max(sum(times for step, times in one.steps.items() if found(step)) for one in self.traffic)

    def mostly(self, found: Callable[[StepTraffic], bool]) -> bool:
        """Tells whether most steps of some rank match."""
        return self.steps_with(found) > MOSTLY * self.steps


def relation_of(run: Run) -> Relation:
    """The relation of a run's ranks, decided from its records."""
    world = run.spec.rehearsed.world_size if run.spec.rehearsed is not None else _world(run)
    everyone = tuple(rank.rank for rank in run.ranks)
    if world < 2:
        return ALONE
    trained = [rank for rank in run.ranks if rank.steps]
    read = [(rank, rank.traffic) for rank in trained if rank.traffic is not None and rank.traffic.count]
    seen = _Seen(
        world,
        tuple(rank for rank, _ in read),
        tuple(traffic for _, traffic in read),
        max((rank.model.parameter_bytes for rank, _ in read if rank.model), default=0),
        run.spec.rehearsed is not None,
    )
    reason = _not_judged(run, seen, trained)
    if reason:
        return Relation("unknown", evidence=reason, ranks=world, feeding=everyone, batches=world)
    return _split(seen) or _sharded(seen) or _passed_on(seen) or _reduced(seen) or _averaged(seen) or _apart(seen)


def _world(run: Run) -> int:
    """The number of ranks as the ranks saw it: a script that starts its own may have more than were asked for."""
    return max((rank.start.world_size for rank in run.ranks if rank.start), default=run.spec.world_size)


def _not_judged(run: Run, seen: _Seen, trained: Sequence[RankRecord]) -> str:
    if any(one.name == "remove_communication" for one in run.spec.changes):
        return "its communication was taken away on purpose"
    if len(seen.ranks) < len(trained) or not seen.ranks:
        return "what the ranks exchanged was not read"
    if len(seen.ranks) < 2 and run.spec.rehearsed is None:
        return f"one of {seen.world} ranks made steps"
    if any(row.where in ("collective", "DistributedDataParallel") for rank in seen.ranks for row in rank.trouble):
        return "the watcher failed at a collective"
    if seen.steps < LEAST_STEPS:
        return f"a rank made {counted(seen.steps, 'step')}, {LEAST_STEPS} are needed"
    if not seen.parameter_bytes:
        return "the parameters were not seen"
    return ""


def _split(seen: _Seen) -> Relation | None:
    """The relation if DTensor splits parameters over ranks that are not FSDP's: those ranks work on one batch."""
    groups = {rank.rank: rank.model.split_over for rank in seen.ranks if rank.model and rank.model.split_over}
    if not groups:
        return None
    size = max(map(len, groups.values()))
    feeding = tuple(rank.rank for rank in seen.ranks if rank.rank == min(groups.get(rank.rank, (rank.rank,))))
    placements = sorted({one for rank in seen.ranks if rank.model for one in rank.model.placements})
    evidence = f"each parameter is split over {size} ranks ({', '.join(placements)})"
    if not seen.rehearsed and any(_different_losses(seen, group) for group in set(groups.values())):
        told = f"{evidence}, whose losses differ: whether each has a part of a batch or of its sequences is not known"
        return Relation("tensor parallel", "DTensor", told, seen.world, (), None)
    evidence += ", which work on one batch"
    return Relation("tensor parallel", "DTensor", evidence, seen.world, feeding or (0,), max(1, seen.world // size))


def _sharded(seen: _Seen) -> Relation | None:
    wrapped = [rank.model for rank in seen.ranks if rank.model and rank.model.wrapper == "FSDP"]
    if not wrapped:
        return None
    over = f" over {len(wrapped[0].averaged_over)} ranks" if wrapped[0].averaged_over else ""
    return _own_batches(seen, "sharded", "FSDP", f"FSDP shards the parameters{over} and averages the gradients")


def _passed_on(seen: _Seen) -> Relation | None:
    """The relation if messages pass from rank to rank before backward ends; with reduced gradients it is unclear."""
    steps = seen.steps_with(lambda step: bool(step.messages & PASSING_ON))
    if steps <= MOSTLY * seen.steps:
        return None
    told = f"activations and their gradients were sent from rank to rank in {steps} of {seen.steps} steps"
    if _reduced(seen) is not None:
        evidence = f"{told}, and gradients were reduced as well: which ranks share a batch is not known"
        return Relation("pipeline", "send and recv", evidence, seen.world, (), None)
    first = min(range(len(seen.ranks)), key=lambda index: seen.ranks[index].rank)
    fed = Counter({step: times for step, times in seen.traffic[first].steps.items() if step.rows})
    rows = [step.rows or 0 for step in fed.elements()]
    feeding = (seen.ranks[first].rank,)
    if not rows:
        evidence = f"{told}, and by the first stage's calls it cannot be told into how many pieces a batch is cut"
        return Relation("pipeline", "send and recv", evidence, seen.world, feeding, None)
    return Relation("pipeline", "send and recv", told, seen.world, feeding, 1, median(rows))


def _reduced(seen: _Seen) -> Relation | None:
    """The relation if DDP or the script reduces gradients; activations exchanged in forward mean tensor parallelism."""
    by_ddp = seen.steps_with(lambda step: step.reduced > 0)
    if by_ddp:
        told = f"DistributedDataParallel averaged gradients in {by_ddp} of {seen.steps} steps"
        if seen.mostly(lambda step: step.parted > BOOKKEEPING_BYTES):
            told += ", and in forward each rank sent the others parts of activations: who shares a batch is not known"
            return Relation("data parallel", "DistributedDataParallel", told, seen.world)
        return _own_batches(seen, "data parallel", "DistributedDataParallel", told)
    least = max(1.0, GRADIENT_SHARE * seen.parameter_bytes)
    after = seen.steps_with(lambda step: step.update + (step.messages == EXCHANGING) * step.sent >= least)
    inside = seen.steps_with(lambda step: step.backward >= least)
    activations = seen.mostly(lambda step: step.forward > BOOKKEEPING_BYTES)
    low, high = (share * seen.parameter_bytes for share in WHOLE_SHARE)
    gradients_inside = seen.mostly(lambda step: low <= step.backward <= high)
    if activations and not after and not gradients_inside:
        told = f"activations were exchanged in forward in most of {seen.steps} steps, and no gradient after backward"
        first = min(rank.rank for rank in seen.ranks)
        return Relation("tensor parallel", "collectives in forward", told, seen.world, (first,), 1)
    if after or inside:
        told = f"the script reduced gradients itself in {max(after, inside)} of {seen.steps} steps"
        return _own_batches(seen, "data parallel", BY_REDUCING, told)
    return None


def _averaged(seen: _Seen) -> Relation | None:
    """The relation if whole models are averaged after steps, perhaps only now and then (local SGD)."""
    steps = seen.steps_with(lambda step: step.between >= max(1.0, MODEL_SHARE * seen.parameter_bytes))
    if not steps:
        return None
    told = f"the script averaged its parameters after {steps} of {seen.steps} steps"
    return _own_batches(seen, "data parallel", BY_AVERAGING, told)


def _apart(seen: _Seen) -> Relation:
    """The relation if nothing was exchanged; parameters that stay equal on different data show an unseen exchange."""
    told = f"no gradient, parameter or activation was exchanged through torch.distributed in any of {seen.steps} steps"
    if seen.steps_with(lambda step: bool(step.messages) or max(step.forward, step.backward) > BOOKKEEPING_BYTES):
        told = f"in {seen.steps} steps the ranks exchanged something, but it is not known what"
        return _own_batches(seen, "unknown", "", told)
    ends = [rank.parameters for rank in seen.ranks if rank.parameters is not None]
    agree = len(ends) == len(seen.ranks) > 1 and all(
        _equal(one.total, ends[0].total) and _equal(one.norm, ends[0].norm) for one in ends[1:]
    )
    if agree and not _same_losses([rank.steps for rank in seen.ranks]):
        told = "nothing was seen to be exchanged, but the parameters are the same on all ranks at the end"
        return _own_batches(seen, "unknown", "", told)
    return _own_batches(seen, "apart", "", told)


def _own_batches(seen: _Seen, kind: RelationKind, how: str, evidence: str) -> Relation:
    return Relation(kind, how, evidence, seen.world, tuple(rank.rank for rank in seen.ranks), seen.world)


def _same_losses(ranks: Iterable[Sequence[StepRow]]) -> bool:
    """Tells whether all ranks had the same loss in every step in which all read it, and in at least one."""
    by_rank = [{row.step: row.loss for row in rows if row.loss is not None} for rows in ranks]
    shared = set.intersection(*map(set, by_rank))
    return bool(shared) and all(_equal(losses[step], by_rank[0][step]) for losses in by_rank for step in shared)


def _different_losses(seen: _Seen, group: Sequence[int]) -> bool:
    """Tells whether ranks that share parameters had different losses in most steps, so that each had other input."""
    by_rank = [
        {row.step: row.loss for row in rank.steps if row.loss is not None} for rank in seen.ranks if rank.rank in group
    ]
    shared = set.intersection(*map(set, by_rank)) if len(by_rank) > 1 else set()
    spans = [(min(losses), max(losses)) for losses in ([one[step] for one in by_rank] for step in shared)]
    return sum(high - low > APART * max(abs(high), abs(low)) for low, high in spans) > MOSTLY * len(shared)


def _equal(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= EQUAL * max(abs(a), abs(b))
