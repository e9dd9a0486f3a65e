"""Detects several ranks of one machine that compute on the same GPU while others are idle."""

import re
from collections import defaultdict
from collections.abc import Mapping

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding
from scalewise.records.examination import PlaceRow
from scalewise.units import counted, named_ranks

CHECK = Check(
    name="one-device-for-all",
    group="machine",
    severity="wrong",
    detects="Two or more ranks of one machine use one and the same GPU although each could have its own.",
    why="NCCL refuses to run so; where it runs, the ranks share one GPU and the others idle.",
    example='device = torch.device("cuda")  # the same GPU 0 on every rank\nmodel = DDP(model.to(device))',
    fix='local_rank = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(local_rank)\n'
    'device = torch.device("cuda", local_rank)\nmodel = DDP(model.to(device), device_ids=[local_rank])',
    needs="a GPU for every rank of the machine, or a run on the CPU in which the calls for GPUs are answered",
    silent="Compared is the GPU itself, not its number: ranks that see one GPU each (CUDA_VISIBLE_DEVICES) are right. "
    "On a machine with fewer GPUs than ranks nothing is said.",
)
VISIBLE = "CUDA_VISIBLE_DEVICES="
_INDEX = re.compile(r"cuda:(\d+)$")


def examine(case: Case) -> tuple[Finding, ...]:
    """Groups the ranks of each host by the GPU that they use or asked for, and reports shared GPUs."""
    hosts = _hosts(case)
    if not hosts:
        raise Abstain("no two ranks run on one machine")
    used = {rank.rank: _asked(rank) if case.run.spec.on_cpu else _gpu(rank) for rank in case.ranks}
    if not any(used.values()):
        raise Abstain("no rank asked for a GPU")
    if not case.run.spec.on_cpu and _gpus(case) < max(map(len, hosts.values())):
        raise Abstain(f"the machine has {counted(_gpus(case), 'GPU')} for {max(map(len, hosts.values()))} ranks")
    return tuple(finding for ranks in hosts.values() for finding in _judge(case, ranks, used))


def _hosts(case: Case) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for rank in case.ranks:
        if rank.record.start is not None:
            found[rank.record.start.host].append(rank.rank)
    return {host: ranks for host, ranks in found.items() if len(ranks) > 1}


def _gpus(case: Case) -> int:
    return len(case.run.machine.gpus) if case.run.machine else 0


def _gpu(rank: RankCase) -> str:
    """Returns the identity of the GPU that holds the rank's wrapped model; empty if there is none, or more than one."""
    found = {row.gpu for row in rank.wrappers if row.gpu}
    return found.pop() if len(found) == 1 else ""


def _asked(rank: RankCase) -> str:
    """Returns the only GPU number that the rank asked for (0 if unnamed) with the GPUs visible to it, else ""."""
    asked = rank.device_use.asked if rank.device_use is not None else ()
    named = [one for one in asked if one == "cuda" or _INDEX.match(one)]
    numbers = {match[1] for one in named if (match := _INDEX.match(one))} or ({"0"} if named else set())
    visible = next((one for one in asked if one.startswith(VISIBLE)), "")
    return f"cuda:{numbers.pop()} {visible}".strip() if len(numbers) == 1 else ""


def _judge(case: Case, ranks: list[int], used: Mapping[int, str]) -> list[Finding]:
    by_gpu: dict[str, list[int]] = defaultdict(list)
    for rank in ranks:
        if used[rank]:
            by_gpu[used[rank]].append(rank)
    return [_finding(case, gpu, shared, len(ranks)) for gpu, shared in by_gpu.items() if len(shared) > 1]


def _finding(case: Case, gpu: str, shared: list[int], ranks: int) -> Finding:
    on_cpu = case.run.spec.on_cpu
    how = f"asked for {gpu} and no other" if on_cpu else f"hold their model on the GPU {gpu}"
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"{named_ranks(shared)} use the same GPU, {gpu if on_cpu else 'by its identity'}.",
        evidence=(f"{named_ranks(shared)} of the {ranks} ranks on this machine {how}",),
        fix=CHECK.fix,
        where=_where(case, shared[-1]),
        ranks=tuple(shared),
        steps_seen=len(case.first.windows),
    )


def _where(case: Case, number: int) -> PlaceRow | None:
    """Returns the line that wraps the model, or None."""
    rank = next(rank for rank in case.ranks if rank.rank == number)
    return rank.places.get(rank.wrappers[0].place) if rank.wrappers else None
