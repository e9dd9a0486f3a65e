"""Reasons why ranks and one rank may part, likeliest first, each with the change from outside that would prove it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scalewise.agreement.compare_runs import RunsCompared, factor_between
from scalewise.agreement.compared_run import ComparedRun, Sketch, added, distance, inner
from scalewise.doctor.finding import Diagnosis
from scalewise.records.notes import BackwardNote, BatchNormNote
from scalewise.records.spec import Change
from scalewise.units import counted, with_small, without_stop

PURE = 0.02  # what no factor explains, as a share; below it the gradient differs by a factor
NEAR = 0.02  # of a factor
LEAST_SHARE = 0.05  # of an earlier gradient that is still there


@dataclass(frozen=True)
class Suspicion:
    """A possible cause, and the change that would mend it; None: the numbers themselves prove it."""

    name: str
    sentence: str
    change: Change | None
    fix: str = ""


def suspicions(
    reference: ComparedRun, other: ComparedRun, compared: RunsCompared, diagnosis: Diagnosis | None
) -> Iterator[Suspicion]:
    """Yields what may be the cause, each change once."""
    seen: set[str] = set()
    for one in _all(reference, other, compared, diagnosis):
        label = one.change.label() if one.change else one.name
        if label not in seen:
            seen.add(label)
            yield one


def _all(
    reference: ComparedRun, other: ComparedRun, compared: RunsCompared, diagnosis: Diagnosis | None
) -> Iterator[Suspicion]:
    first = compared.first_difference
    if first is None:
        return
    step = first.step
    yield from _start(compared)
    yield from _rate(reference, other, step)
    if not first.parted("gradient"):
        yield from _stayed(other, step)
    if first.parted("gradient"):
        yield from _not_zeroed(reference, other, step)
        yield from _uneven(other, step)
        yield from _reduction(reference, other, compared, step)
        yield from _factor(reference, other, compared, step)
    yield from _found(diagnosis)
    yield from _batch_norm(other)
    yield from _weights(other, step)
    if first.parted("gradient"):
        yield from _scaled(reference, other, step)


def _stayed(other: ComparedRun, step: int) -> Iterator[Suspicion]:
    """Parameters that a step moved on some ranks alone."""
    for (at, name), after in other.parameters.items():
        before = other.parameters.get((step, name))
        if at != step + 1 or before is None or len(after) < 2:
            continue
        still = [rank for rank, one in after.items() if rank in before and distance(before[rank], one) == 0]
        if still and len(still) < len(after):
            yield Suspicion(
                "update-not-sent",
                f"step {step + 1} moves {name} on some ranks, and on rank {still[0]} it stays as it was: ranks that "
                "update a part of the parameters do not send it to the others",
                None,
                "dist.broadcast(p.data, src=owner_of(p))  # after the step",
            )
            return


def _start(compared: RunsCompared) -> Iterator[Suspicion]:
    if any(one.rank for one in compared.start) and not any(one.rank == 0 for one in compared.start):
        names = sorted({one.name for one in compared.start})
        yield Suspicion(
            "ranks-start-apart",
            f"ranks start from different parameters: {names[0]} and {len(names) - 1} more"
            if len(names) > 1
            else f"ranks start from different parameters: {names[0]}",
            Change("same_start"),
            "for p in model.parameters():\n    dist.broadcast(p.data, src=0)",
        )


def _rate(reference: ComparedRun, other: ComparedRun, step: int) -> Iterator[Suspicion]:
    here, there = (one.settings.get((step, 0), {}) for one in (reference, other))
    for key, value in here.items():
        own = there.get(key, value)
        if math.isclose(own, value, rel_tol=1e-9):
            continue
        what = key.partition(".")[2]
        change = Change("scale_rate", {"by": _rates(reference, other, key)}) if what == "lr" else None
        yield Suspicion(
            "learning-rate-differs" if what == "lr" else "settings-differ",
            f"{'the learning rate' if what == 'lr' else what} of the optimizer is {own:g} on the ranks and {value:g} "
            f"on one rank (step {step + 1})",
            change,
            "set it to a number that does not depend on the ranks, or expect another training",
        )
        return


def _rates(reference: ComparedRun, other: ComparedRun, key: str) -> str:
    """The factors for each step that make the ranks' learning rate that of one rank."""
    factors = []
    for step in range(min(reference.steps, other.steps)):
        wanted, own = (one.settings.get((step, 0), {}).get(key, 0.0) for one in (reference, other))
        factors.append(wanted / own if own else 1.0)
    return ";".join(map(repr, factors))


def _not_zeroed(reference: ComparedRun, other: ComparedRun, step: int) -> Iterator[Suspicion]:
    """Gradients that are those of this step and of the step before added up, each times a number (as of clipping)."""
    triples = [
        (_any(found), _any(reference.gradients[step, name]), _any(before))
        for name in reference.names(step)
        if (found := other.gradients.get((step, name))) and (before := other.gradients.get((step - 1, name)))
    ]
    sums = [[sum(inner(one[i], one[j]) for one in triples) for j in range(3)] for i in range(3)]
    (whole, with_new, with_old), (_, new, both), (_, _, old) = sums
    determinant = new * old - both**2
    factor = factor_between(reference, other, step)
    if not triples or determinant <= 0 or (factor is not None and factor[1] <= PURE):
        return
    of_new = (with_new * old - with_old * both) / determinant
    of_old = (with_old * new - with_new * both) / determinant
    left = whole - of_new * with_new - of_old * with_old
    if min(of_new, of_old) > LEAST_SHARE and left <= PURE**2 * whole:
        yield Suspicion(
            "gradients-not-zeroed",
            f"the gradients of step {step + 1} are those of steps {step} and {step + 1} added up, to "
            f"{100 * math.sqrt(max(0.0, left) / whole):.1g} %: what zeroes them does not reach them",
            None,
            "optimizer.zero_grad()  # model.zero_grad() misses the shards while FSDP has gathered the parameters",
        )


def _any(sketches: Mapping[int, Sketch]) -> Sketch:
    return next(iter(sketches.values()))


def _reduction(reference: ComparedRun, other: ComparedRun, compared: RunsCompared, step: int) -> Iterator[Suspicion]:
    """Looks for gradients that differ between ranks, and whose mean or sum is the reference's."""
    mean, total, apart = [], [], []
    for name in reference.names(step):
        ranks = list(other.gradients.get((step, name), {}).values())
        base = next(iter(reference.gradients[step, name].values()))
        if len(ranks) < 2 or not base.norm:
            continue
        limit = 0.001 * max(one.norm for one in (base, *ranks))
        if any(distance(ranks[0], one) > limit for one in ranks[1:]):
            apart.append(name)
            mean += [name] if distance(base, added(ranks, 1 / len(ranks))) <= limit else []
            total += [name] if distance(base, added(ranks)) <= limit else []
    if not apart:
        return
    some = apart[0] if len(apart) == 1 else f"{counted(len(apart), 'parameter')}, {apart[0]} first,"
    sums = len(total) > len(mean)
    yield Suspicion(
        "missing-reduction",
        f"the gradient of {some} differs between ranks: it was never {'summed' if sums else 'averaged'} over them",
        Change("average_gradients", {"sum": 1} if sums else {}),
        f"dist.all_reduce(p.grad, op=dist.ReduceOp.{'SUM' if sums else 'AVG'})",
    )


def _factor(reference: ComparedRun, other: ComparedRun, compared: RunsCompared, step: int) -> Iterator[Suspicion]:
    found = factor_between(reference, other, step)
    if found is None or found[1] > PURE or abs(found[0] - 1) <= NEAR / 10 or found[0] <= 0:
        return
    factor, ranks = found[0], len(other.ranks)
    for wanted, name, sentence, fix in (
        (ranks, "summed-not-averaged", "gradients are summed over the ranks and not averaged", "p.grad /= world_size"),
        (
            1 / ranks,
            "divided-once-too-often",
            "the loss is a sum over samples (or divided by the ranks already), and gradients are averaged over ranks",
            "loss = loss * world_size  # or take the mean over the samples of all ranks",
        ),
        (1 / ranks**2, "divided-twice", "gradients are divided by the number of ranks twice too often", ""),
        (ranks**2, "multiplied-by-ranks", "gradients are multiplied by the number of ranks twice", ""),
    ):
        if abs(factor / wanted - 1) <= NEAR:
            yield Suspicion(name, f"{sentence}: they are {factor:.4g} times as long", _divided(wanted), fix)
            return


def _scaled(reference: ComparedRun, other: ComparedRun, step: int) -> Iterator[Suspicion]:
    """Any other factor; it comes last, as unequal weights of ranks look like one that is near 1."""
    found = factor_between(reference, other, step)
    if found is not None and found[1] <= PURE and abs(found[0] - 1) > NEAR / 10 and found[0] > 0:
        yield Suspicion("scaled-gradient", f"all gradients are {found[0]:.4g} times as long", _divided(found[0]))


def _divided(by: float) -> Change:
    return Change("scale_gradients", {"by": 1 / by})


def _found(diagnosis: Diagnosis | None) -> Iterator[Suspicion]:
    """The doctor's findings on the same run that say that something is wrong and how it is mended from outside."""
    for one in diagnosis.findings if diagnosis else ():
        if one.change is not None and one.severity == "wrong":
            yield Suspicion(one.check, with_small(without_stop(one.sentence)), one.change, one.fix)


def _batch_norm(other: ComparedRun) -> Iterator[Suspicion]:
    if any(isinstance(note, BatchNormNote) for rank in other.run.ranks for note in rank.notes):
        yield Suspicion(
            "batch-norm-per-rank",
            "batch normalisation uses the statistics of each rank's own samples",
            Change("joint_batch_norm"),
            "model = nn.SyncBatchNorm.convert_sync_batchnorm(model)",
        )


def _uneven(other: ComparedRun, step: int) -> Iterator[Suspicion]:
    """Ranks with unequal numbers of samples, whose means are averaged as if they were equal."""
    rows = {rank: row.rows for rank, row in other.given.get(step, {}).items()}
    if len(set(rows.values())) > 1:
        numbers = ", ".join(map(str, rows.values()))
        yield Suspicion(
            "uneven-last-batch",
            f"ranks have unequal numbers of samples in step {step + 1} ({numbers}), and their means are averaged as if "
            "they were equal",
            Change("weigh_ranks"),
            "drop_last=True, or loss = sum of losses * world_size / number of samples of all ranks",
        )


def _weights(other: ComparedRun, step: int) -> Iterator[Suspicion]:
    """Ranks with unequal numbers of targets, whose means are averaged as if they were equal."""
    if any(isinstance(note, BackwardNote) for rank in other.run.ranks for note in rank.notes):
        yield Suspicion(
            "mean-of-rank-means",
            "ranks take means over unequal numbers of targets, and these means are averaged as if they were equal",
            Change("weigh_ranks"),
            "loss = sum of losses * world_size / number of targets of all ranks",
        )
