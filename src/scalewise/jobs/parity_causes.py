"""Looks for the cause of a difference: tries each suspicion by a run with it mended from outside."""

import time
from collections.abc import Sequence

from scalewise.agreement.causes import Suspicion, suspicions
from scalewise.agreement.compare_runs import RunsCompared, factor_between, parity_of
from scalewise.agreement.compared_run import ComparedRun
from scalewise.agreement.parity_answer import NamedCause
from scalewise.doctor.case import case_of
from scalewise.doctor.finding import Diagnosis
from scalewise.doctor.run_checks import diagnosis_of
from scalewise.jobs.parity_runs import ParityRuns, Untold
from scalewise.plan.parity_specs import compared_spec
from scalewise.records.load import Run
from scalewise.records.parity import SHAPES_FILE

MOST_TRIED = 6  # changes that may be the cause
MOST_SECONDS = 75.0  # for trying them
NEARER = 0.9  # of the distance before a change
MOST_SHARE = 10.0  # a tensor that is near zero in the reference does not outweigh all others


def proved_cause(
    runs: ParityRuns, reference: ComparedRun, together: ComparedRun, rounding: ComparedRun, compared: RunsCompared
) -> tuple[NamedCause | None, tuple[str, ...]]:
    """The suspicion whose change makes the ranks compute what one computes, or two of them, and what else was tried.

    A change that brings the ranks nearer is kept while the others are tried: a script may have several mistakes.
    """
    began = time.monotonic()
    tried: list[str] = []
    kept: list[Suspicion] = []
    before = compared
    for one in suspicions(reference, together, compared, _diagnosis(together.run)):
        if one.change is None:
            return NamedCause(one.name, one.sentence, fix=one.fix), tuple(tried)
        if len(tried) >= MOST_TRIED or time.monotonic() - began > MOST_SECONDS:
            tried.append(f"not tried for want of time: {one.change.label()}")
            break
        ended, now = _tried(runs, (*kept, one), len(tried), reference, rounding)
        if not ended:
            return _together((*kept, one)), tuple(tried)
        if now is not None and _nearer(now, before):
            kept, before = [*kept, one], now
            ended = "brings them nearer, and was kept while others were tried"
        tried.append(f"{one.change.label()}: {ended}")
    return None, tuple(tried)


def _together(causes: Sequence[Suspicion]) -> NamedCause:
    return NamedCause(
        name=", ".join(one.name for one in causes),
        sentence="; ".join(one.sentence for one in causes),
        change=" and ".join(one.change.label() for one in causes if one.change is not None),
        fix="\n".join(one.fix for one in causes if one.fix),
    )


def _tried(
    runs: ParityRuns, wanted: Sequence[Suspicion], number: int, reference: ComparedRun, rounding: ComparedRun
) -> tuple[str, RunsCompared | None]:
    """Tells in words how a run with the changes ended, empty if it computes the same; and how it compares now."""
    changes = tuple(one.change for one in wanted if one.change is not None)
    shapes = runs.folder.path / SHAPES_FILE
    name = f"{runs.together.name}-mended-{number + 1}"
    spec = compared_spec(runs.together, name, runs.request.steps, changes, shapes=shapes.resolve())
    try:
        run = runs.make_compared(spec, "the ranks with the change")
    except Untold as reason:
        return str(reason), None
    if not run.run.applied(changes[-1].name):
        return "it never took effect", None
    compared = parity_of(reference, run, rounding)
    first = compared.first_difference
    if first is None and compared.steps:
        return "", compared
    found = factor_between(reference, run, first.step) if first else None
    left = f", now {found[0]:.4g} times as long" if found else ""
    return f"they part all the same{left}", compared


def _nearer(now: RunsCompared, before: RunsCompared) -> bool:
    return len(now.start) < len(before.start) or _mean_distance(now) < NEARER * _mean_distance(before)


def _mean_distance(compared: RunsCompared) -> float:
    """The mean distance of all tensors in the step in which they part, as a share of their lengths."""
    step = compared.first_difference
    shares = [min(one.relative, MOST_SHARE) for one in step.tensors] if step is not None else []
    return sum(shares) / len(shares) if shares else 0.0


def _diagnosis(run: Run) -> Diagnosis | None:
    try:
        return diagnosis_of(case_of(run))
    except Exception:
        return None
