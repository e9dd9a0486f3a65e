"""Detects steps that use gradients that were not all-reduced, or only in part, so that the ranks' models differ."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Price, Replayed
from scalewise.doctor.queries.accumulation import MicroBatch, Update, updates_of
from scalewise.doctor.queries.averaging import LARGE_SHARE, ParameterComparison, comparisons, ddp_of, sent_bytes
from scalewise.doctor.queries.source import text_of, wrapper_name
from scalewise.records.examination import WrapperRow
from scalewise.records.notes import BackwardNote, CollectiveNote
from scalewise.records.spec import Change

CHECK = Check(
    name="never-synchronised",
    group="accumulation",
    severity="wrong",
    detects="The last micro-batch before a step does not reduce gradients: under no_sync(), or another one reduces.",
    why="What DDP did not reduce is this rank's own gradient: the replicas drift apart and train several models.",
    example="""for i, (x, y) in enumerate(loader):
    with model.no_sync():
        (criterion(model(x), y) / K).backward()
    if (i + 1) % K == 0:
        optimizer.step()""",
    fix="""for i, (x, y) in enumerate(loader):
    last = (i + 1) % K == 0
    with nullcontext() if last else model.no_sync():
        (criterion(model(x), y) / K).backward()
    if last:
        optimizer.step()""",
    needs="a DistributedDataParallel model on two ranks or more",
    silent="Gradients or whole models that the script reduces itself (local SGD).",
)
OFTEN = 0.5  # share of the updates, if the parameters themselves were not compared


@dataclass(frozen=True)
class _Seen:
    updates: tuple[Update, ...]  # updates that trained this wrapper
    alone: tuple[Update, ...]  # updates whose last micro-batch was not reduced
    without_any: int  # number of those without any reduction


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding if the last pass through the wrapper in an update is not set to reduce."""
    if any(note.closure for note in case.first.all(BackwardNote)):
        raise Abstain("the optimizer asks for gradients itself (a closure)")
    return tuple(_of(case, ddp_of(case)))


def _of(case: Case, wrapper: WrapperRow) -> Iterator[Finding]:
    seen = _seen(case, wrapper)
    if not seen.alone or _sends_itself(case, wrapper):
        return
    compared = comparisons(case, wrapper)
    after = [one for one in compared if one.step > seen.alone[0].number]
    apart = next((one for one in after if one.gaps), None)
    if after and not after[-1].gaps:  # the parameters are equal again, whatever the reason
        return
    if apart is None and len(seen.alone) < OFTEN * len(seen.updates):
        return
    yield _finding(case, wrapper, seen, apart, after[-1] if after else None)


def _seen(case: Case, wrapper: WrapperRow) -> _Seen:
    updates, _ = updates_of(case.first)
    through = [(update, [one for one in update.micro_batches if _passes(one, wrapper)]) for update in updates]
    used = [(update, passes) for update, passes in through if passes]
    alone = [(update, passes) for update, passes in used if not _reduces(passes[-1], wrapper)]
    without_any = sum(not any(_reduces(one, wrapper) for one in passes) for _, passes in alone)
    return _Seen(tuple(update for update, _ in used), tuple(update for update, _ in alone), without_any)


def _passes(micro_batch: MicroBatch, wrapper: WrapperRow) -> bool:
    return any(note.wrapper == wrapper.index for note in micro_batch.forwards)


def _reduces(micro_batch: MicroBatch, wrapper: WrapperRow) -> bool:
    return any(note.wrapper == wrapper.index and note.sync for note in micro_batch.forwards)


def _sends_itself(case: Case, wrapper: WrapperRow) -> bool:
    """Returns True if the script reduces gradients or models by hand, all together or one tensor at a time."""
    updates, rest = updates_of(case.first)
    least = max(1.0, LARGE_SHARE * wrapper.parameter_bytes)
    for update in (*updates[1:], rest):  # the broadcast of a model before the first step does not count
        calls = [note for note in update.notes if isinstance(note, CollectiveNote)]
        if sent_bytes(calls) >= least:
            return True
    return False


def _finding(
    case: Case, wrapper: WrapperRow, seen: _Seen, apart: ParameterComparison | None, last: ParameterComparison | None
) -> Finding:
    rank, count = case.first, len(seen.alone)
    forward = rank.place(seen.alone[0].micro_batches[-1].forwards[-1])
    model = wrapper_name(rank, wrapper)
    sizes = sorted({update.size for update in seen.updates})
    evidence = [
        f"{count} of {len(seen.updates)} optimizer steps apply gradients whose last micro-batch was not reduced; "
        f"{seen.without_any} of them without any all-reduce",
        f"micro-batches per step: {', '.join(map(str, sizes[:6]))}",
    ]
    if apart is not None and last is not None:
        evidence.append(
            f"parameters differ between ranks from step {apart.step} on: {len(last.gaps)} of {last.tensors} tensors, "
            f"by up to {max(last.gaps.values()):.2g} of their norm after step {last.step}"
        )
    never = seen.without_any == count
    price = (
        Price(max(last.gaps.values()), "share", "of a tensor's norm between ranks",
              f"measured after step {last.step}")
        if last is not None and last.gaps
        else Price(float(count), "steps", "that each rank made by itself", "counted")
    )  # fmt: skip
    reason = "no micro-batch of them reduces" if never else "an earlier micro-batch reduces, not the last"
    line = text_of(forward, f"loss = criterion({model}(x), y)")
    return Finding(
        check=CHECK.name,
        severity=CHECK.severity,
        sentence=f"In {count} of {len(seen.updates)} optimizer steps the ranks keep gradients to themselves: {reason}.",
        evidence=tuple(evidence),
        fix=f"{model}.require_backward_grad_sync = last  # or: with contextlib.nullcontext() if last else "
        f"{model}.no_sync():\n{line}  # `last`: the micro-batch right before the optimizer's step",
        where=forward,
        price=price,
        steps_seen=len(seen.updates),
        change=Change("sync_last", {"window": sizes[0]}) if len(sizes) == 1 else None,
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Marks the finding as proved if the ranks' parameters agree once the last micro-batch is reduced."""
    wrapper = next((row for row in replayed.fixed.trained_wrappers() if len(row.ranks) > 1), None)
    if replayed.trouble or not replayed.applied or wrapper is None:
        return finding
    compared = comparisons(replayed.fixed, wrapper)
    if not compared or compared[-1].gaps:
        return finding
    text = f"with the fix all {compared[-1].tensors} tensors agree between ranks after step {compared[-1].step}"
    return replace(finding, evidence=(*finding.evidence, text), proof="replayed")
