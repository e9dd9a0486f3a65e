"""Detects ranks that never exchange anything, so that each trains a model of its own."""

from collections.abc import Iterator

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Price
from scalewise.doctor.queries.averaging import ParameterComparison, comparisons_of, fed_differently
from scalewise.records.notes import NOWHERE, GroupNote

CHECK = Check(
    name="ranks-train-apart",
    group="ddp",
    severity="wrong",
    detects="No gradient, parameter or activation goes from one rank to another in any step.",
    why="N ranks then make N trainings beside each other. Nobody learns from the others' data, N models come out of "
    "it, and the time of a step looks like perfect scaling.",
    example='dist.init_process_group("nccl")\nmodel = Net().to(local_rank)  # and no DistributedDataParallel around it',
    fix='dist.init_process_group("nccl")\n'
    "model = DistributedDataParallel(Net().to(local_rank), device_ids=[local_rank])",
    needs="two ranks that make two steps or more",
    silent="Gradients or parameters that the script averages itself, every step or now and then (local SGD); FSDP, "
    "tensor parallelism and pipelines; evaluation without training; ranks that train models of different shapes, as a "
    "search for parameters does. Where a DistributedDataParallel is there and not used, the checks of DDP say so. "
    "A run that was ended after few steps leaves a suspicion: the script may average its models later.",
)
# Local SGD averages every 4 to 100 steps or so: a run that ended earlier may not have reached an average.
SURE_STEPS = 200


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns a finding if the ranks share no work; abstains if parameters stay equal on different data."""
    relation = case.relation
    if relation.kind == "alone":
        raise Abstain("there is one rank only")
    if relation.kind == "unknown":
        raise Abstain(relation.evidence)
    if relation.kind != "apart":
        return ()
    if any(row.wrapper == "DistributedDataParallel" for row in case.first.wrappers):
        raise Abstain("there is a DistributedDataParallel: never-synchronised and ddp-bypassed look at how it is used")
    if len({rank.record.model.shapes_digest for rank in case.ranks if rank.record.model}) > 1:
        return ()
    compared = comparisons_of(case, NOWHERE, [rank.rank for rank in case.ranks])
    last = compared[-1] if compared else None
    if last is not None and last.tensors and not last.gaps and fed_differently(case):
        raise Abstain("no exchange was seen, but on different data the ranks' parameters stay equal")
    return (_finding(case, last),)


def _finding(case: Case, last: ParameterComparison | None) -> Finding:
    rank, count = case.first, case.relation.ranks
    same = last is not None and last.tensors > 0 and not last.gaps
    outcome = "makes the same training" if same else "trains a model of its own"
    step = rank.windows[0].step if rank.windows else None
    later = _may_average_later(case)
    seen = f"the {len(rank.windows)} steps that were seen" if later else f"any of {len(rank.windows)} steps"
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"The {count} ranks {'seem to ' if later else ''}train apart: no gradient, parameter or activation "
        f"was exchanged in {seen}; each {outcome}.",
        evidence=(*_evidence(case, last), *([later] if later else [])),
        proof="suspected" if later else "observed",
        fix=_fix(case),
        where=rank.place(step),
        price=Price((count - 1) / count, "share", "of the ranks' work that no other rank learns from", "counted"),
        steps_seen=len(rank.windows),
    )


def _may_average_later(case: Case) -> str:
    """Returns why the finding is only suspected; empty if the run is complete, made no group, or is long enough."""
    outcome, steps = case.run.outcome, len(case.first.windows)
    through = outcome is not None and outcome.kind in ("finished", "aborted_at_exit")
    grouped = any(note.event == "init" for note in case.first.all(GroupNote))
    if through or not grouped or steps >= SURE_STEPS:
        return ""
    return (
        f"the run was ended after {steps} steps: a script that averages its models every so many steps (local SGD) may "
        "not have come to it; a larger --limit shows more steps"
    )


def _evidence(case: Case, last: ParameterComparison | None) -> Iterator[str]:
    yield case.relation.evidence
    groups = [note for note in case.first.all(GroupNote) if note.event == "init"]
    if groups:
        yield f"a process group of {groups[0].world_size} ranks was made ({groups[0].backend})"
    else:
        yield f"no process group was made, though {case.relation.ranks} ranks were started"
    if last is None or not last.tensors:
        yield "whether the ranks' parameters differ was not seen"
    elif last.gaps:
        yield (
            f"after step {last.step}, {len(last.gaps)} of {last.tensors} parameter tensors differ between the ranks, "
            f"by up to {max(last.gaps.values()):.2g} of the norm"
        )
    else:
        yield f"after step {last.step}, all {last.tensors} parameter tensors are the same on all ranks"


def _fix(case: Case) -> str:
    made = any(note.event == "init" for note in case.first.all(GroupNote))
    begin = "" if made else "torch.distributed.init_process_group()  # before the model is made\n"
    return (
        f"{begin}model = torch.nn.parallel.DistributedDataParallel(model)  # before the optimizer is made\n"
        "# and each rank its own part of the data: DataLoader(dataset, sampler=DistributedSampler(dataset), ...)"
    )
