"""Detects ranks that average their gradients, by DDP or by hand, but hold different parameters after a step."""

from scalewise.analysis.relation import BY_AVERAGING
from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.averaging import (
    TOLERANCE,
    ParameterComparison,
    averages_models,
    comparisons,
    comparisons_of,
)
from scalewise.doctor.queries.inputs import BY_HAND, replica_groups
from scalewise.doctor.queries.source import wrapper_name
from scalewise.records.examination import PlaceRow, WrapperRow
from scalewise.records.notes import NOWHERE, ScheduleNote

CHECK = Check(
    name="parameters-diverge",
    group="ddp",
    severity="wrong",
    detects="Ranks that average their gradients hold different parameters after a step.",
    why="DDP never compares parameters after its construction: it averages gradients and trusts that everything else "
    "is equal. A loop that reduces gradients by hand does not compare them either. Once the models differ, the "
    "averaged gradient belongs to none of them.",
    example="model = DDP(net)\nif rank == 0:\n    net.head.reset_parameters()  # after wrapping: rank 0 alone",
    fix="net.head.reset_parameters()  # before wrapping: DDP sends rank 0's parameters to all\nmodel = DDP(net)",
    needs="sums of the parameters after the same step on two or more ranks that average their gradients",
    silent="Buffers; sharded parameters; ranks that average whole models now and then (local SGD).",
)
AVERAGED = "the script averages whole models between steps, so the ranks may be meant to differ in between"


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding per wrapper, or one for the parameters whose gradients the script reduces itself."""
    wrappers = [row for row in case.first.wrappers if row.wrapper == "DistributedDataParallel" and len(row.ranks) > 1]
    compared: list[tuple[WrapperRow | None, tuple[ParameterComparison, ...]]] = [
        (row, comparisons(case, row)) for row in wrappers
    ]
    by_hand = [group.ranks for group in replica_groups(case) if group.how == BY_HAND]
    compared += [(None, comparisons_of(case, NOWHERE, ranks)) for ranks in by_hand[:1]]
    if not any(found for _, found in compared):
        raise Abstain(_nothing_compared(case))
    windows, model = (*case.first.windows, case.first.rest), case.first.record.model
    sizes = [row.parameter_bytes for row in wrappers] or [model.parameter_bytes if model else 0]
    if any(averages_models(windows, size) for size in sizes):
        raise Abstain(AVERAGED)
    return tuple(
        _finding(case, row, found)
        for row, found in compared
        if found and found[-1].gaps  # ranks that agree again differed on purpose
    )


def _nothing_compared(case: Case) -> str:
    kind, how = case.relation.kind, case.relation.how
    if kind == "sharded":
        return "FSDP shards the parameters: no two ranks hold the same ones"
    if how == BY_AVERAGING:
        return AVERAGED
    if kind in ("tensor parallel", "pipeline"):
        return f"the ranks hold different parts of one model ({kind})"
    return "no parameters of ranks that average their gradients were noted on two ranks after the same step"


def _finding(case: Case, wrapper: WrapperRow | None, compared: tuple[ParameterComparison, ...]) -> Finding:
    first = next(one for one in compared if one.gaps)
    last = compared[-1]
    name, gap = max(first.gaps.items(), key=lambda item: item[1])
    name = name if wrapper is not None else f"the optimizer's parameter {name}"
    evidence = [
        f"after step {first.step}, {len(first.gaps)} of {first.tensors} parameter tensors differ between ranks "
        f"{', '.join(map(str, first.ranks))}; bound {TOLERANCE:g}",
        f"the largest gap is {gap:.2g} of the norm, in {name}",
        f"after step {last.step}, {len(last.gaps)} differ, by up to {max(last.gaps.values()):.2g}",
        *_causes(case, wrapper),
    ]
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"The ranks hold different parameters from step {first.step} on: {len(first.gaps)} of {first.tensors} "
        f"tensors differ, {name} by {gap:.2g} of its norm.",
        evidence=tuple(evidence),
        fix="# change parameters alike on all ranks, or before wrapping, or let this follow:\n"
        f"for parameter in {wrapper_name(case.first, wrapper)}.parameters():\n"
        "    torch.distributed.broadcast(parameter.detach(), src=0)",
        where=case.first.places.get(wrapper.place) if wrapper is not None else _step_line(case),
        price=Price(max(last.gaps.values()), "share", f"of a tensor's norm apart after step {last.step}", "measured"),
        ranks=first.ranks,
        steps_seen=len(case.first.windows),
    )


def _step_line(case: Case) -> PlaceRow | None:
    return case.first.place(case.first.windows[0].step) if case.first.windows else None


def _causes(case: Case, wrapper: WrapperRow | None) -> list[str]:
    """Returns sentences on what was seen that would explain the difference."""
    windows = case.first.windows
    index = None if wrapper is None else wrapper.index
    trained = [[note for note in window.forwards if note.wrapper == index] for window in windows]
    past = sum(any(note.bypassed == index for note in window.forwards) for window in windows)
    unsynchronised = sum(bool(notes) and not notes[-1].sync for notes in trained)
    skipped = {rank.rank: sum(w.step.skipped for w in rank.windows if w.step) for rank in case.ranks}
    counts = {rank.rank: len(rank.windows) for rank in case.ranks}
    rates = {rank.rank: [note.rate for note in rank.all(ScheduleNote)] for rank in case.ranks}
    causes = []
    if past:
        causes.append(f"likely cause: the wrapper was bypassed in {past} of {len(windows)} steps")
    if unsynchronised:
        causes.append(f"likely cause: no gradient was averaged in {unsynchronised} of {len(windows)} steps")
    if len(set(skipped.values())) > 1:
        causes.append(f"likely cause: a scaler skipped steps on some ranks only ({_by_rank(skipped)})")
    if len(set(counts.values())) > 1:
        causes.append(f"the ranks made different numbers of steps ({_by_rank(counts)})")
    lengths = min(map(len, rates.values()), default=0)
    if any(values[:lengths] != rates[case.first.rank][:lengths] for values in rates.values()):
        causes.append("likely cause: the learning rates of the ranks differ")
    return causes


def _by_rank(counts: dict[int, int]) -> str:
    return ", ".join(f"rank {rank}: {count}" for rank, count in sorted(counts.items()))
