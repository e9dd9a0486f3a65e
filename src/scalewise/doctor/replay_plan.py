"""The changes of a diagnosis that are worth replaying, and what their plan has to know of the observed run."""

from itertools import pairwise

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Diagnosis
from scalewise.plan.replays import Observed, Replay, replay_of
from scalewise.records.load import Run

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
