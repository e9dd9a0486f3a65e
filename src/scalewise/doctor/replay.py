"""Replays: which changes are worth one, how their two sides compare, and how each check settles its finding by them."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from scalewise.analysis.arms import ArmRuns, arm_of
from scalewise.analysis.ratio import seconds_between
from scalewise.analysis.work import equal_work
from scalewise.doctor.case import Case, case_of
from scalewise.doctor.finding import Diagnosis, Finding, GradientPair, Replayed, Rule, TimeSaved, priced_by_time, rules
from scalewise.doctor.run_checks import MOST_LETTERS, worst_first
from scalewise.errors import BadRequest
from scalewise.plan.replays import MOST_SECONDS, Observed, Replay, replay_of
from scalewise.records.changes import declared
from scalewise.records.inspection import GradientRow
from scalewise.records.load import Run
from scalewise.records.spec import RunSpec

MOST_REPLAYS = 6
MOST_SWEPT = 3  # values of sweeps on top of them, where time is left
MOST_MEMORY = 0.8  # of what there is


def plan_replays(case: Case, diagnosis: Diagnosis) -> tuple[Replay, ...]:
    """Returns the distinct changes of the findings, worst first; none if the script does not run through by itself."""
    outcome = case.run.outcome
    if outcome is None or not (outcome.measured or outcome.kind == "timed_out") or not case.ranks:
        return ()
    wanted = {one.change.label(): one.change for one in diagnosis.findings if one.change is not None}
    timed = {one.change.label() for one in diagnosis.findings if one.change and one.severity == "slow"}
    swept = {change.label(): change for one in diagnosis.findings for change in one.sweep if one.counts}
    observed = Observed(
        spec=case.run.spec,
        wall_seconds=outcome.wall_seconds,
        complete=outcome.kind in ("finished", "aborted_at_exit"),
        steps=len(case.first.windows),
        loop_seconds=_loop_seconds(case),
        world_size=case.world_size,
        fits_twice=_fits_twice(case.run),
    )
    first = [replay_of(observed, change, label in timed) for label, change in list(wanted.items())[:MOST_REPLAYS]]
    return (*first, *(replay_of(observed, change, True) for change in list(swept.values())[:MOST_SWEPT]))


def _fits_twice(run: Run) -> bool:
    """Returns True if both runs can be in memory at once."""
    rows = [rank.memory[-1] for rank in run.ranks if rank.memory]
    if run.machine is None or not rows:
        return True
    gpu_bytes = min((gpu.memory_bytes for gpu in run.machine.gpus), default=0)
    held_bytes = max(row.cuda_peak_reserved_bytes or 0 for row in rows)
    host_bytes = sum(row.peak_rss_bytes for row in rows)
    return 2 * held_bytes <= gpu_bytes * MOST_MEMORY and 2 * host_bytes <= run.machine.memory_bytes * MOST_MEMORY


def _loop_seconds(case: Case) -> float:
    """Returns the median time from step to step in the observed run."""
    ends = [window.notes[-1].at_ns for window in case.first.windows]
    gaps = sorted(after - before for before, after in pairwise(ends))
    return gaps[len(gaps) // 2] / 1e9 if gaps else 0.0


Make = Callable[[Sequence[RunSpec]], Sequence[Run]]  # makes runs and reads them; fewer come back when interrupted

MOST_SECONDS_IN_ALL = 2.5 * MOST_SECONDS


class Unusable(Exception):
    """Raised when a replay says nothing about the finding; the reason is shown."""


class Interrupted(Exception):
    """Raised when a replay was not completed."""


def replay_findings(case: Case, diagnosis: Diagnosis, make: Make, among: Sequence[Rule] | None = None) -> Diagnosis:
    """Replays changes and lets the checks settle their findings; a finding that cannot be settled stays as it was."""
    began = time.monotonic()
    findings, made, left = list(diagnosis.findings), 0, list(plan_replays(case, diagnosis))
    while left and time.monotonic() - began < MOST_SECONDS_IN_ALL:
        replay = left.pop(0)
        try:
            shown = replayed_of(replay, _made(replay, make))
        except Interrupted:
            left.insert(0, replay)
            break
        except (Unusable, BadRequest) as reason:
            findings = [_unsettled(one, str(reason)) if _has(one, replay) else one for one in findings]
            continue
        made += 1
        settled = [_settled(case, one, shown, among) if _has(one, replay) else one for one in findings]
        findings = [one for one in settled if one is not None]
    notes = tuple(_notes(made, time.monotonic() - began, [one.change.label() for one in left]))
    still = {one.check for one in findings}
    dismissed = tuple(dict.fromkeys(one.check for one in diagnosis.findings if one.check not in still))
    return replace(
        diagnosis,
        findings=worst_first(findings),
        passed=(*diagnosis.passed, *dismissed),
        notes=(*diagnosis.notes, *notes),
    )


def _notes(made: int, seconds: float, left: Sequence[str]) -> Iterator[str]:
    if made:
        fixes = "fix" if made == 1 else "fixes"
        yield f"The script was run again with {made} {fixes} applied, and as it is beside it, in {seconds:.0f} s."
    if left:
        yield f"Not run again for want of time: {', '.join(left)}."


def _made(replay: Replay, make: Make) -> list[Run]:
    """Makes the runs pair by pair, as long as both of a pair run through."""
    runs: list[Run] = []
    for pair in replay.pairs:
        made = make(pair)
        if len(made) < len(pair):
            raise Interrupted
        runs += made
        if not all(run.measured for run in made):
            break
    return runs


def replayed_of(replay: Replay, runs: Sequence[Run]) -> Replayed:
    """Compares the two sides of a replay; raises Unusable if they say nothing."""
    found = {run.spec.name: run for run in runs}
    plain, fixed = (
        [found[spec.name] for spec in specs if spec.name in found] for specs in (replay.plain, replay.fixed)
    )
    for run in plain:
        if not run.measured:
            raise Unusable(f"the unchanged script failed when it was run again: {_end(run)}")
    name = replay.change.name
    broken = [row.error for run in fixed for rank in run.ranks for row in rank.trouble if row.where == f"change {name}"]
    if broken:
        raise Unusable(f"the fix could not be applied from outside: {broken[0][:MOST_LETTERS]}")
    applied = sum(run.applied(name) for run in fixed)
    failed = next((_end(run) for run in fixed if not run.measured), "")
    if not applied and not failed:
        raise Unusable("the fix could not be applied from outside: it never took effect")
    return Replayed(
        change=replay.change,
        plain=case_of(plain[0]),
        fixed=case_of(fixed[0]),
        applied=applied,
        saved=None if failed else time_saved(_timed(plain), _timed(fixed), declared(name).between_steps),
        trouble=failed,
        gradients=_gradients(plain[0], fixed[0]),
    )


def _timed(runs: Sequence[Run]) -> Sequence[Run]:
    """Returns the runs that were not examined; all of them if every run was examined."""
    return [run for run in runs if run.spec.timed] or runs


def time_saved(plain: Sequence[Run], fixed: Sequence[Run], whole_loop: bool = False) -> TimeSaved | None:
    """Returns the difference of the step times with its interval; None if too little was measured or work differs."""
    a, b = arm_of(plain), arm_of(fixed)
    if not a.measured or not b.measured:
        return None
    if not equal_work(a.measured[0].work, b.measured[0].work, allow=("changes",)).allowed:
        return None
    if whole_loop:
        a, b = (_of_the_loop(arm) for arm in (a, b))
    difference = seconds_between(b.side(), a.side())
    medians = [one.median for one in a.measured]
    what = "rounds of the loop" if whole_loop else "steps"
    where = ", on the CPU, where it may weigh otherwise than on a GPU" if a.spec.on_cpu else ""
    steps = min(sum(one.median.steps for one in arm.measured) for arm in (a, b))
    return TimeSaved(
        milliseconds=difference.times(1e3),
        step_milliseconds=sum(one.seconds for one in medians) / len(medians) * 1e3,
        how=f"measured over {steps} {what} with and without the fix, {difference.method}{where}",
    )


def _of_the_loop(arm: ArmRuns) -> ArmRuns:
    """Returns the same runs with the time from step to step instead of the step time."""
    measured = [(one, one.series.loop_median()) for one in arm.measured]
    return replace(arm, measured=tuple(replace(one, median=loop) for one, loop in measured if loop is not None))


def _settled(case: Case, finding: Finding, shown: Replayed, among: Sequence[Rule] | None) -> Finding | None:
    """Returns the finding as its check settles it, None if it is dismissed; unsettled if the check itself fails."""
    rule = next((one for one in (rules() if among is None else among) if one.check.name == finding.check), None)
    settle = rule.settle if rule else None
    try:
        settled = settle(case, finding, shown) if settle is not None else _settled_by_itself(finding, shown)
    except Exception as error:
        return _unsettled(finding, f"the check could not read it: {type(error).__name__}: {error}"[:MOST_LETTERS])
    if shown.trouble and settled == finding:
        return _unsettled(finding, f"with the fix applied the script failed: {shown.trouble}")
    return settled


def _settled_by_itself(finding: Finding, shown: Replayed) -> Finding:
    """Returns the finding with the replay's result, for checks that have no `settle` of their own."""
    if shown.trouble:
        return finding
    if finding.severity == "slow":
        return priced_by_time(finding, shown, f"what {shown.change.label()} would save")
    return replace(finding, evidence=(*finding.evidence, *_gradient_words(shown)))


def _gradient_words(shown: Replayed) -> Iterator[str]:
    pair = shown.gradients
    if pair is not None and pair.factor is not None:
        yield f"replayed with {shown.change.label()}, the first step's gradient is {pair.factor:.4g} times as long"


def _unsettled(finding: Finding, reason: str) -> Finding:
    words = f"a replay with the fix could not settle it: {reason}"
    return replace(finding, evidence=(*finding.evidence, words))


def _has(finding: Finding, replay: Replay) -> bool:
    changes = (*((finding.change,) if finding.change is not None else ()), *finding.sweep)
    return replay.change.label() in {change.label() for change in changes}


def _end(run: Run) -> str:
    if run.outcome is None:
        return "it has not ended"
    # The next run finds what the examined one saved: a script that resumes has nothing left to do.
    resumed = "; it may have gone on from a checkpoint of the first run" if run.outcome.kind == "no_steps" else ""
    return f"{run.outcome.sentence}{resumed}"


def _gradients(plain: Run, fixed: Run) -> GradientPair | None:
    sides = []
    for run in (plain, fixed):
        rank = min(run.ranks, key=lambda one: one.rank, default=None)
        rows = [row for row in (rank.inspection if rank else ()) if isinstance(row, GradientRow)]
        sides.append(rows[0] if rows else None)
    a, b = sides
    if a is None or b is None or a.step != b.step:
        return None
    zeros = (row.zeros / row.elements for row in (a, b))
    return GradientPair(a.step, a.norm, b.norm, a.projection, b.projection, *zeros)
