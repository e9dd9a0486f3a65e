"""Detects a search for unused parameters in every step although there never are any."""

import re

from scalewise.doctor.case import Abstain, Case
from scalewise.doctor.finding import Check, Finding, Replayed, priced_by_time
from scalewise.doctor.queries.source import assigned, text_of
from scalewise.records.examination import PlaceRow, WrapperRow
from scalewise.records.spec import Change

CHECK = Check(
    name="needless-find-unused",
    group="ddp",
    severity="slow",
    detects="find_unused_parameters=True, and every parameter has a gradient in every step on every rank.",
    why="DDP then walks through the whole graph after each forward pass, reduces a map of used parameters in each "
    "backward pass and waits for it without need.",
    example="model = DDP(net, find_unused_parameters=True)",
    fix="model = DDP(net)",
    needs="a DistributedDataParallel with the option on, looked at in five steps or more on every rank",
    silent="A parameter that had no gradient in any of the steps on any rank; static_graph.",
)
LEAST_STEPS = 5
CHANGE = Change("ddp_option", {"find_unused_parameters": False})


def examine(case: Case) -> tuple[Finding, ...]:
    """Returns one finding per wrapper with the option on."""
    asking = [row for row in case.ddp_models() if row.options.get("find_unused_parameters")]
    return tuple(
        _finding(case, row, steps)
        for row in asking
        if not row.options.get("static_graph") and (steps := _needless_for(case, row))
    )


def _needless_for(case: Case, wrapper: WrapperRow) -> int:
    """Returns in how many steps every rank used every parameter; 0 if a parameter was once unused."""
    uses = [use for rank in case.ranks for use in rank.uses if use.wrapper == wrapper.index]
    if any(count for use in uses for count in use.without_gradient.values()):
        return 0
    steps = min((use.steps_looked_at for use in uses), default=0)
    if steps < LEAST_STEPS or len(uses) < len(case.ranks):
        raise Abstain(f"needs {LEAST_STEPS} steps of which all gradients were looked at on every rank, saw {steps}")
    return steps


def _finding(case: Case, wrapper: WrapperRow, steps: int) -> Finding:
    where = case.first.places.get(wrapper.place)
    ranks = f"{len(case.ranks)} ranks" if len(case.ranks) > 1 else "1 rank"
    return Finding(
        check=CHECK.name,
        severity="slow",
        sentence=f"find_unused_parameters is on, and none of the parameters was unused in {steps} steps on {ranks}.",
        evidence=(
            f"parameters without a gradient: 0 in each of {steps} steps on {ranks}",
            f"{steps} steps were looked at: a branch that is taken later would not have been seen",
        ),
        fix=_fix(where),
        where=where,
        steps_seen=steps,
        change=CHANGE,
    )


def settle(case: Case, finding: Finding, replayed: Replayed) -> Finding:
    """Prices the finding by the time of the search; a script that fails without the option needs it."""
    return priced_by_time(finding, replayed, "searching for unused parameters")


def _fix(where: PlaceRow | None) -> str:
    option = re.compile(r",?\s*find_unused_parameters\s*=\s*True")
    text = text_of(where, "")
    if option.search(text):
        return option.sub("", text)
    return f"{assigned(where, 'model')} = DistributedDataParallel(net)  # without find_unused_parameters"
