"""Looks for the cause of a difference: tries each suspicion by a run with it mended from outside."""

import time

from scalewise.agreement.causes import Suspicion, suspicions
from scalewise.agreement.compare_runs import RunsCompared, factor_between, parity_of
from scalewise.agreement.compared_run import ComparedRun
from scalewise.agreement.parity_answer import NamedCause
from scalewise.doctor.case import case_of
from scalewise.doctor.finding import Diagnosis
from scalewise.doctor.run_checks import diagnosis_of
from scalewise.jobs.parity_bench import Bench, Untold
from scalewise.plan.parity_runs import compared_spec
from scalewise.records.load import Run
from scalewise.records.parity import SHAPES_FILE

MOST_TRIED = 6  # changes that may be the cause
MOST_SECONDS = 120.0  # for trying them


def proved_cause(
    bench: Bench, reference: ComparedRun, together: ComparedRun, rounding: ComparedRun, compared: RunsCompared
) -> tuple[NamedCause | None, tuple[str, ...]]:
    """The first suspicion whose change makes the ranks compute what one computes, and what was tried before."""
    began = time.monotonic()
    tried: list[str] = []
    for one in suspicions(reference, together, compared, _diagnosis(together.run)):
        if one.change is None:
            return NamedCause(one.name, one.sentence, fix=one.fix), tuple(tried)
        if len(tried) >= MOST_TRIED or time.monotonic() - began > MOST_SECONDS:
            tried.append(f"not tried for want of time: {one.change.label()}")
            break
        ended = _tried(bench, one, len(tried), reference, rounding)
        if not ended:
            return NamedCause(one.name, one.sentence, one.change.label(), one.fix), tuple(tried)
        tried.append(f"{one.change.label()}: {ended}")
    return None, tuple(tried)


def _tried(
    bench: Bench, one: Suspicion, number: int, reference: ComparedRun, rounding: ComparedRun
) -> str:  # fmt: skip
    """Tells in words how a run with the change ended; empty if it computes the same as one rank."""
    assert one.change is not None
    shapes = bench.folder.path / SHAPES_FILE
    spec = compared_spec(
        bench.together, f"mended-{number + 1}", bench.request.steps, (one.change,), shapes=shapes.resolve()
    )
    try:
        run = bench.compared(spec, "the ranks with the change")
    except Untold as reason:
        return str(reason)
    if not run.run.applied(one.change.name):
        return "it never took effect"
    compared = parity_of(reference, run, rounding)
    parting = compared.parting
    if parting is None and compared.steps:
        return ""
    found = factor_between(reference, run, parting.step) if parting else None
    left = f", now {found[0]:.4g} times as long" if found else ""
    return f"they part all the same{left}"


def _diagnosis(run: Run) -> Diagnosis | None:
    try:
        return diagnosis_of(case_of(run))
    except Exception:
        return None
