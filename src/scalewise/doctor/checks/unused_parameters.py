"""Detects a script that DDP ended because some parameters had no gradient."""

import re

from scalewise.doctor.case import Abstain, Case, RankCase
from scalewise.doctor.finding import Check, Finding
from scalewise.records.examination import FailureRow
from scalewise.units import counted

CHECK = Check(
    name="unused-parameters",
    group="ddp",
    severity="wrong",
    detects="DistributedDataParallel ended the script because parameters took no part in the loss.",
    why="DDP waits for a gradient of every parameter before it averages. One that never comes leaves the step "
    "unfinished, and the next forward pass raises an error that counts parameters instead of naming them.",
    example="class Net(nn.Module):\n    def forward(self, x):\n        return self.used(x)  # never self.spare",
    fix="for parameter in net.spare.parameters():\n    parameter.requires_grad_(False)\nmodel = DDP(net)",
    needs="the error itself; without it every parameter had its gradient in time",
    silent="find_unused_parameters=True where parameters are really unused: that is what it is for.",
)
MESSAGE = "Expected to have finished reduction in the prior iteration"
MOST_NAMES = 6


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding, with the names of the parameters."""
    if not any(row.wrapper == "DistributedDataParallel" for rank in case.ranks for row in rank.wrappers):
        raise Abstain("no DistributedDataParallel")
    failed = [(rank, rank.failure) for rank in case.ranks if rank.failure and MESSAGE in rank.failure.message]
    return (_finding(case, failed),) if failed else ()


def _finding(case: Case, failed: list[tuple[RankCase, FailureRow]]) -> Finding:
    rank, failure = failed[0]
    names = {one.rank: _names(one, row) for one, row in failed}
    every = sorted({name for found in names.values() for name in found})
    listed = ", ".join(every[:MOST_NAMES]) + (f" and {len(every) - MOST_NAMES} more" if len(every) > MOST_NAMES else "")
    indices = re.search(r"did not receive grad for rank \d+: ([\d ]+)", failure.message)
    evidence = [f"{failure.error} on rank {', '.join(str(one.rank) for one, _ in failed)}: {MESSAGE} ..."]
    evidence += [f"rank {number}: no gradient for {', '.join(found[:MOST_NAMES])}" for number, found in names.items()]
    if indices:
        evidence.append(f"DDP names them by number: {indices.group(1).strip()[:80]}")
    makers = [rank.places[row.place] for row in rank.wrappers if row.place in rank.places]
    what = f"{counted(len(every), 'parameter')} got no gradient ({listed})" if every else "some parameters got none"
    return Finding(
        check=CHECK.name,
        severity="wrong",
        sentence=f"DistributedDataParallel ended the script because {what}.",
        evidence=tuple(one for one in evidence if not one.endswith("for ")),
        fix=_fix(every),
        where=rank.places.get(failure.place),
        also=tuple(makers[:1]),
        ranks=tuple(one.rank for one, _ in failed),
        steps_seen=len(case.first.windows),
    )


def _names(rank: RankCase, failure: FailureRow) -> list[str]:
    if failure.without_gradient:
        return list(failure.without_gradient)
    return [name for use in rank.uses for name, steps in use.without_gradient.items() if steps]


def _fix(names: list[str]) -> str:
    spare = names[0].rpartition(".")[0] if names else ""
    owner = f"net.{spare}" if spare else "net"
    return (
        f"# either leave out of training what has no part in the loss, before wrapping:\n"
        f"{owner}.requires_grad_(False)\n"
        f"# or, if it is used in some steps only:\n"
        f"model = DistributedDataParallel(net, find_unused_parameters=True)"
    )
