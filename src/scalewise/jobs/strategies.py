"""Measures a script for one device under every strategy of parallel training, and compares what each computes."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalewise.agreement.strategy_table import PredictedRow, StrategiesAnswer, StrategyParity, ordered
from scalewise.analysis.series import series
from scalewise.errors import BadRequest
from scalewise.jobs.failure_messages import refusal
from scalewise.jobs.measure import Here
from scalewise.jobs.reporter import Reporter
from scalewise.jobs.strategy_parity import compared_strategies
from scalewise.jobs.strategy_predictions import PredictionRequest, predicted_rows
from scalewise.jobs.strategy_rows import strategy_rows
from scalewise.jobs.strategy_runs import (
    ONE_RANK,
    WITHOUT,
    StrategiesRequest,
    StrategyArm,
    StrategyRuns,
    reason_to_abstain,
    strategy_runs,
)
from scalewise.launch.forkserver import Servers
from scalewise.launch.this_machine import machine_facts
from scalewise.plan.adhoc import check_script
from scalewise.plan.parity_specs import SEEDED
from scalewise.plan.python_file import check_is_python
from scalewise.records.examination import UNUSED_PARAMETERS, MeasuredRow
from scalewise.records.load import Run
from scalewise.records.spec import RunSpec
from scalewise.units import counted, without_stop

_OF_RANKS = re.compile(r"\b(?:RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT)\b")
_WAITED = "Expected to have finished reduction in the prior iteration"  # how DDP begins to complain
_UNUSED = (
    "DDP waits for a gradient of every parameter, and some have none in some steps: let the loss use all of them in "
    "every step, or give those that it never uses requires_grad=False"
)


def strategies(request: StrategiesRequest, reporter: Reporter) -> StrategiesAnswer:
    """Returns the table of all strategies that were asked for."""
    check_script(request.script)
    check_is_python(request.script)
    reporter.say("looking at the machine")
    with Servers() as servers:
        return strategies_here(request, reporter, Here(servers, machine_facts(servers)))


def strategies_here(request: StrategiesRequest, reporter: Reporter, here: Here) -> StrategiesAnswer:
    """Does the same on a machine whose facts are known already."""
    began = time.monotonic()
    runs = strategy_runs(request, reporter, here)
    timed = _timed(runs)
    notes = list(timed.notes)
    parities: Mapping[str, StrategyParity] = {}
    predicted: tuple[PredictedRow, ...] = ()
    try:
        runs.make([runs.inspected(arm) for arm in (ONE_RANK, *timed.applied)], timed.made, 0)
        if request.parity and timed.applied:
            parities, said = compared_strategies(runs, timed.applied)
            notes += said
        if request.predict is not None:
            predicted = _predicted(runs, request.predict)
    except KeyboardInterrupt:
        notes.append("Interrupted after the steps were measured: what is missing was not looked into.")
    return StrategiesAnswer(
        script=request.script.name,
        args=request.args,
        ranks=request.ranks,
        device=runs.together.device,
        steps=request.steps,
        repeats=request.repeats,
        rows=ordered(strategy_rows(runs, timed.ended, parities)),
        predicted=predicted,
        link=_link_name(request.predict),
        memory_bytes=request.predict.memory_bytes if request.predict is not None else None,
        notes=tuple(notes),
        folder=str(runs.folder.path),
        seconds=time.monotonic() - began,
    )


@dataclass(frozen=True)
class _Timed:
    """The strategies that have numbers, and how the others ended."""

    applied: tuple[StrategyArm, ...]
    ended: Mapping[str, tuple[str, str]]  # by name: the kind of row, and the reason
    made: int  # runs
    notes: tuple[str, ...] = ()


def _timed(runs: StrategyRuns) -> _Timed:
    """Makes the timed runs: all strategies once, then again those that could be applied, interleaved."""
    arms = runs.arms if runs.request.ranks > 1 else ()  # on one rank only predictions were asked for
    base, first = runs.timed(ONE_RANK, 0), [runs.timed(arm, 0) for arm in arms]
    runs.make([base], 0, len(first) + _still(runs, arms))
    _check_base(runs.load(base))
    runs.make(first, 1, _still(runs, arms))
    ends = {arm.name: _end(arm, runs.load(spec)) for arm, spec in zip(arms, first, strict=True)}
    applied = tuple(arm for arm in arms if ends[arm.name] is None)
    made, without = 1 + len(first), [runs.timed(arm, 0, WITHOUT) for arm in applied]
    runs.make(without, made, _still(runs, applied) - len(without))
    made += len(without)
    removed = [arm for arm, spec in zip(applied, without, strict=True) if _was_removed(runs.load(spec))]
    later = [spec for repeat in range(1, runs.request.repeats) for spec in _repeated(runs, repeat, applied, removed)]
    runs.make(later, made, 1 + len(applied))
    ended = {name: end for name, end in ends.items() if end is not None}
    return _Timed(applied, ended, made + len(later), tuple(_about_unused(runs, applied)))


def _repeated(
    runs: StrategyRuns, repeat: int, applied: Sequence[StrategyArm], removed: Sequence[StrategyArm]
) -> list[RunSpec]:
    """The runs of one round, the first of which has been made: with communication, and without it where that works."""
    specs = [runs.timed(arm, repeat) for arm in (ONE_RANK, *applied)]
    return specs + [runs.timed(arm, repeat, WITHOUT) for arm in removed]


def _still(runs: StrategyRuns, applied: Sequence[StrategyArm]) -> int:
    """The number of runs that are made at most after the first ones: without communication, repeated, inspected."""
    later = _repeated(runs, 1, applied, applied)
    return len(applied) + (runs.request.repeats - 1) * len(later) + 1 + len(applied)


def _was_removed(run: Run) -> bool:
    return run.measured and bool(run.applied(WITHOUT.name))


def _check_base(run: Run) -> None:
    """Raises a BadRequest if one rank does not train: then no strategy can be compared with it."""
    outcome, name = run.outcome, Path(run.spec.script).name
    if outcome is None or outcome.measured:
        return
    problem = refusal(outcome, run.spec)
    if problem is not None:
        raise problem
    if outcome.kind == "no_steps":
        raise BadRequest(f"{name} made no optimizer step on one rank: there is nothing to compare.", outcome.hint)
    end = outcome.first_failed
    if end is not None and end.exception in ("KeyError", "ValueError") and _OF_RANKS.search(end.raised):
        raise BadRequest(
            f"{name} makes its own process group: it is written for several ranks, and strategies is for a script that "
            "knows of one device.",
            f"Whether its ranks compute what one rank computes: scalewise parity {name}\n"
            f"How fast they are: scalewise run {name} --ranks 1,2",
        )
    raise BadRequest(f"{name} does not train on one rank: {without_stop(outcome.sentence)}.", outcome.hint)


def _end(arm: StrategyArm, run: Run) -> tuple[str, str] | None:
    """The kind of row of a strategy without numbers, and the reason; None if it has some."""
    reason = reason_to_abstain(run)
    if reason and (run.outcome is None or run.outcome.kind != "enough"):  # what came after enough steps is not needed
        return "abstained", reason
    if not run.measured:
        end = run.outcome.first_failed if run.outcome else None
        if end is not None and _WAITED in end.raised:
            return "failed", _UNUSED
        return "failed", without_stop(run.outcome.sentence) if run.outcome else "its run did not end"
    if not run.applied(arm.changes[0].name):
        return "abstained", _not_applied(arm, run)
    return None


def _not_applied(arm: StrategyArm, run: Run) -> str:
    troubles = [row.error for rank in run.ranks for row in rank.trouble if row.where == f"change {arm.changes[0].name}"]
    return troubles[0] if troubles else "the script never calls a module that its optimizer trains"


def _about_unused(runs: StrategyRuns, applied: Sequence[StrategyArm]) -> Iterator[str]:
    """Yields a note on strategies that were told to look for parameters without a gradient."""
    found: dict[str, int] = {}
    for arm in applied:
        for row in runs.load(runs.timed(arm, 0)).ranks[0].examination:
            if isinstance(row, MeasuredRow) and row.what == UNUSED_PARAMETERS:
                found[arm.name] = int(row.value)
    if found:
        yield (
            f"{counted(max(found.values()), 'parameter')} of the model took no part in what it returned, so "
            f"{' and '.join(found)} searched for such (find_unused_parameters=True), which costs time in every step."
        )


def _predicted(runs: StrategyRuns, asked: PredictionRequest) -> tuple[PredictedRow, ...]:
    """Rehearses the strategies for the numbers of ranks that were asked for, also those that failed here."""
    found = series(runs.load(runs.timed(ONE_RANK, 0)))
    samples = found.global_samples() if found else None
    arms = [(arm.name, arm.text, (*arm.changes, *SEEDED)) for arm in runs.arms]
    return predicted_rows(asked, runs.request, samples, arms, runs.reporter, runs.here)


def _link_name(asked: PredictionRequest | None) -> str:
    if asked is None:
        return ""
    return asked.link.name if asked.link is not None else "as measured here"
