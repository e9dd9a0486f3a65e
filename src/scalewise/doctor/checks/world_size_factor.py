"""Detects gradients that are summed over ranks and never divided by their number, or divided after DDP has averaged."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.accumulation import MOSTLY, Update, close, of_kind, updates_of, weight_of
from scalewise.records.examination import PlaceRow
from scalewise.records.notes import BackwardNote, CollectiveNote, ScalerNote

CHECK = Check(
    name="world-size-factor",
    group="accumulation",
    severity="wrong",
    detects="The gradient is the sum over ranks where the mean is meant, or DDP's mean is divided by the ranks again.",
    why="The step grows, or shrinks, with the number of ranks: the same script learns differently on other machines.",
    example="""for p in model.parameters():
    dist.all_reduce(p.grad)  # a sum
optimizer.step()""",
    fix="""for p in model.parameters():
    dist.all_reduce(p.grad)
    p.grad /= dist.get_world_size()
optimizer.step()""",
    needs="the notes of all ranks, and the gradient before and after it is reduced, in the first windows",
    silent="Losses that are divided by a count over all ranks, for which the sum is right.",
)
GRADIENTS = 0.5  # share of the parameters' bytes that is all-reduced between backward and step
EQUAL = 1e-3  # relative difference below which ranks apply the same gradient


@dataclass(frozen=True)
class _Step:
    """One update on all ranks."""

    ratios: tuple[float, ...]  # applied gradient over the one that backward left, by rank
    share: float | None  # share of the ranks' sum that is applied: 1/ranks is their mean; None: not known
    weight: float  # weight of the loss, as mean over the ranks


def examine(case: Case) -> tuple[Finding, ...]:
    """Looks at how the gradient changes between backward and step, on all ranks together."""
    size = case.world_size
    if size < 2 or len(case.ranks) < size:
        raise Abstain("needs the notes of two ranks or more" if size < 2 else f"{len(case.ranks)} of {size} ranks told")
    if any(note.closure for note in case.first.all(BackwardNote)):
        raise Abstain("the optimizer asks for gradients itself (a closure)")
    by_rank = [updates_of(rank)[0] for rank in case.ranks]
    together = list(zip(*by_rank, strict=False))
    if len(together) < 2:
        raise Abstain(f"needs 2 optimizer steps after backward passes, saw {len(together)}")
    calls = [_reduced_by_hand(case, updates[0]) for updates in together]
    by_ddp = sum(updates[0].micro_batches[-1].syncs for updates in together) > 0.5 * len(together)
    by_hand = sum(map(bool, calls)) > 0.5 * len(together)
    if not by_ddp and not by_hand:
        raise Abstain("no gradient was seen to be averaged over the ranks between backward and step")
    steps = [step for step in map(_step, together) if step is not None]
    if len(steps) < 2:
        raise Abstain("what becomes of the gradient between backward and step could not be seen")
    place = next((case.first.place(call) for call in calls if call is not None), None)
    place = place or case.first.place(together[0][0].steps[0])
    if not by_ddp and all(step.share is None for step in steps):
        raise Abstain("the ranks do not apply the same gradient, or it could not be seen")
    averager = "FSDP" if case.relation.kind == "sharded" else "DDP"
    return _after_wrapper(steps, size, place, averager) if by_ddp else _by_hand(steps, size, place)


def _reduced_by_hand(case: Case, update: Update) -> CollectiveNote | None:
    """Returns the call that reduces the gradients, or the first of many; None if the script does not reduce them."""
    model = case.first.record.model
    calls = [
        note for note in of_kind(update.tail, CollectiveNote) if note.operation.startswith(("all_reduce", "reduce"))
    ]
    calls = [note for note in calls if not note.operation.startswith("reduce_scatter")]
    if model is None or sum(note.size_bytes for note in calls) < max(1.0, GRADIENTS * model.parameter_bytes):
        return None
    return calls[0]


def _step(updates: tuple[Update, ...]) -> _Step | None:
    """Returns one update of all ranks; None if something about it is not known."""
    ratios: list[float] = []
    weights: list[float] = []
    for update in updates:
        own = [weight_of(one) for one in update.micro_batches]
        known = [weight for weight in own if weight is not None]
        if update.applied is None or not known or len(known) < len(own):
            return None
        scales = [note.scale for note in of_kind(update.notes, ScalerNote) if note.scale]
        scale = scales[0] if scales else 1.0
        ratios.append(update.applied * scale)
        weights.append(sum(known) / scale)
    return _Step(tuple(ratios), _share(updates), statistics.fmean(weights))


def _share(updates: Sequence[Update]) -> float | None:
    """Returns the share of the sum of the ranks' gradients that all ranks apply; None if it is not known.

    All ranks apply A = share x sum of g: then share = |A|^2 / sum of A.g, and A.g is the ratio times |g|^2.
    """
    steps = [update.steps[0] for update in updates]
    norms = [step.norm for step in steps if step.norm]
    if len(norms) < len(steps) or max(norms) > (1 + EQUAL) * min(norms):
        return None  # not the same gradient on all ranks
    products = sum((step.ratio or 0.0) * (step.left or 0.0) ** 2 for step in steps)
    return statistics.fmean(norms) ** 2 / products if products > 0 else None


def _after_wrapper(steps: Sequence[_Step], size: int, place: PlaceRow | None, averager: str) -> tuple[Finding, ...]:
    """Returns a finding if gradients that the wrapper has averaged are multiplied or divided by the number of ranks."""
    for factor in (float(size), 1 / size):
        guilty = [step for step in steps if all(close(one, factor, 0.02) for one in step.ratios)]
        guilty = [step for step in guilty if close(step.weight, 1.0)]
        if len(guilty) >= MOSTLY * len(steps):
            what = "summed over ranks again" if factor > 1 else "divided by the number of ranks again"
            evidence = (
                f"between {averager}'s reduction and the step the gradient is multiplied by "
                f"{guilty[0].ratios[0]:.3g} on all {size} ranks, in {len(guilty)} of {len(steps)} steps looked at",
                f"weight of the loss before it: {guilty[0].weight:.3g}",
            )
            fix = f"# {averager} has averaged the gradients already: leave them as they are\noptimizer.step()"
            sentence = (
                f"{averager} averages the gradients, and they are {what}: the step is {factor:.3g} times the right one."
            )
            return (_finding(sentence, evidence, fix, place, factor, len(steps)),)
    return ()


def _by_hand(steps: Sequence[_Step], size: int, place: PlaceRow | None) -> tuple[Finding, ...]:
    """Returns a finding if the whole sum of the ranks' gradients is applied where a share of 1/ranks is meant."""
    shares = [step.share for step in steps if step.share is not None and close(step.weight, 1.0)]
    if len(shares) < 2:
        return ()
    summed = [share for share in shares if close(share, 1.0)]
    if len(summed) < MOSTLY * len(shares):
        return ()
    share = statistics.median(summed)
    evidence = (
        f"the gradient that is applied is {share:.3g} times the sum of the {size} ranks' gradients, in {len(summed)} "
        f"of {len(shares)} steps looked at; the mean would be {1 / size:.3g} times",
        f"weight of the loss on each rank: {steps[0].weight:.3g}; nothing divides by {size} between backward and step",
    )
    fix = "for p in model.parameters():\n    dist.all_reduce(p.grad)\n    p.grad /= dist.get_world_size()"
    sentence = f"Gradients are summed over {size} ranks and never divided: the step is {size} times the mean's."
    return (_finding(sentence, evidence, fix, place, share * size, len(shares)),)


def _finding(
    sentence: str, evidence: tuple[str, ...], fix: str, place: PlaceRow | None, times: float, seen: int
) -> Finding:
    price = Price(times, "times", "the gradient averaged over ranks", "computed from the gradients of all ranks")
    return Finding(
        check=CHECK.name,
        severity=CHECK.severity,
        sentence=sentence,
        evidence=evidence,
        fix=fix,
        where=place,
        price=price,
        steps_seen=seen,
    )
