"""Which remedies are worth replaying, and the runs that this takes: as it is and mended, in turns step by step."""

import re
from dataclasses import dataclass, replace
from itertools import pairwise, product

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Diagnosis
from scalewise.records.changes import declared
from scalewise.records.spec import Change, Examined, RunSpec, Timed, Turns
from scalewise.results.run import Run

MOST_REPLAYS = 6
MOST_SWEPT = 3  # values of sweeps on top of them, where time is left
MOST_SECONDS = 60.0  # of one replay
LEAST_SECONDS = 20.0  # two runs have to start, and wait for each other
TIMES_AS_LONG = 3.0  # as the observed run
STEPS, LEAST_STEPS = 60, 20
MOST_REPEATS = 5  # as many as let the spread between them be seen
SHORTEST_RUN_SECONDS = 0.5
RUNS_AND_TURNS = 3.0  # two runs, and what they wait for each other
MOST_MEMORY = 0.8  # of what there is


@dataclass(frozen=True)
class Replay:
    """One remedy and the runs that show what it changes."""

    remedy: Change
    plain: tuple[RunSpec, ...]
    mended: tuple[RunSpec, ...]

    @property
    def pairs(self) -> tuple[tuple[RunSpec, RunSpec], ...]:
        """In the order in which they are made."""
        return tuple(zip(self.plain, self.mended, strict=True))


def plan_replays(case: Case, diagnosis: Diagnosis) -> tuple[Replay, ...]:
    """The distinct remedies of the findings, worst first; none where the script does not get through by itself."""
    outcome = case.run.outcome
    if outcome is None or not (outcome.measured or outcome.kind == "timed_out") or not case.ranks:
        return ()
    wanted = {one.remedy.label(): one.remedy for one in diagnosis.findings if one.remedy is not None}
    timed = {one.remedy.label() for one in diagnosis.findings if one.remedy and one.severity == "slow"}
    swept = {remedy.label(): remedy for one in diagnosis.findings for remedy in one.sweep if one.counts}
    first = [_replay(case, remedy, label in timed) for label, remedy in list(wanted.items())[:MOST_REPLAYS]]
    return (*first, *(_replay(case, remedy, True) for remedy in list(swept.values())[:MOST_SWEPT]))


def replay_seconds(case: Case) -> float:
    """How long one replay may take."""
    observed = case.run.outcome.wall_seconds if case.run.outcome else 0.0
    return min(MOST_SECONDS, max(LEAST_SECONDS, TIMES_AS_LONG * observed))


def takes_turns(case: Case, remedy: Change) -> bool:
    """Rings are of ranks that the fork server has started; those of a launcher of the script's own take no turns.

    The workers of a loader go on while their run waits for its turn: what it then waits for data would be too little.
    A host that runs ahead of its GPU cannot do so across a turn.
    """
    spec = case.run.spec
    alone = spec.nodes is None and spec.launcher == "fork" and case.world_size == spec.ranks
    return alone and not declared(remedy.name).between_steps and _fits_twice(case.run)


def _fits_twice(run: Run) -> bool:
    """Whether both runs of a ring can be in memory at once."""
    rows = [rank.memory[-1] for rank in run.ranks if rank.memory]
    if run.machine is None or not rows:
        return True
    gpu_bytes = min((gpu.memory_bytes for gpu in run.machine.gpus), default=0)
    held_bytes = max(row.cuda_peak_reserved_bytes or 0 for row in rows)
    host_bytes = sum(row.peak_rss_bytes for row in rows)
    return 2 * held_bytes <= gpu_bytes * MOST_MEMORY and 2 * host_bytes <= run.machine.memory_bytes * MOST_MEMORY


def _replay(case: Case, remedy: Change, timed: bool) -> Replay:
    """The first two are examined; `timed`: the remedy is a matter of milliseconds, which those are not asked for.

    To examine takes time of its own. A rank that waits for messages has it for nothing, a mended one has not.
    """
    compiles = declared(remedy.name).compiles
    seconds = MOST_SECONDS if compiles else replay_seconds(case)
    stall_seconds = MOST_SECONDS if compiles else case.run.spec.stall_seconds
    turns = takes_turns(case, remedy)
    # Runs that take no turns differ by chance, and two of them hardly tell by how much.
    repeats = _repeats(case, seconds, 1 if turns else 2 if remedy.name == "cached_input" else 3) if timed else 0
    steps = _steps(_loop_seconds(case), seconds / max(1, repeats))
    label = re.sub(r"[^a-z0-9]+", "-", remedy.label().lower()).strip("-")
    mended = (*(one for one in case.run.spec.changes if one.name != remedy.name), remedy)
    sides: tuple[list[RunSpec], list[RunSpec]] = ([], [])
    for repeat, (index, side) in product(range(1 + repeats), enumerate(sides)):
        ring = f"replay-{label}-r{repeat}"
        spec = replace(
            case.run.spec,
            name=f"{ring}-{('plain', 'mended')[index]}",
            repeat=repeat,
            kind=Timed() if repeat else Examined(show_gradients=True),
            changes=mended if index else case.run.spec.changes,
            turns=Turns(ring, index, 2) if turns else None,
            enough_steps=LEAST_STEPS if timed and not repeat else steps,
            limit_seconds=seconds,
            stall_seconds=stall_seconds,
        )
        side.append(spec)
    return Replay(remedy, *map(tuple, sides))


def _repeats(case: Case, seconds: float, least: int) -> int:
    """More than the least where the script itself makes too few steps to compare, as far as the time allows."""
    outcome, steps = case.run.outcome, len(case.first.windows)
    if outcome is None or outcome.kind not in ("finished", "aborted_at_exit") or not steps:
        return least
    affordable = int(seconds / (RUNS_AND_TURNS * max(outcome.wall_seconds, SHORTEST_RUN_SECONDS)))
    return max(least, min(MOST_REPEATS, -(-STEPS // steps), affordable))


def _loop_seconds(case: Case) -> float:
    """From step to step in the observed run."""
    ends = [window.notes[-1].at_ns for window in case.first.windows]
    gaps = sorted(after - before for before, after in pairwise(ends))
    return gaps[len(gaps) // 2] / 1e9 if gaps else 0.0


def _steps(loop_seconds: float, seconds: float) -> int:
    """As many as half the time allows for two runs, the rest being for their start; the script may end before."""
    return max(LEAST_STEPS, min(STEPS, int(seconds / 4 / loop_seconds))) if loop_seconds else STEPS
