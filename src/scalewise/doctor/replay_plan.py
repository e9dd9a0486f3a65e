"""Which remedies are worth replaying, and the runs that this takes: as it is and mended, in turns step by step."""

import re
from dataclasses import dataclass, replace
from itertools import pairwise

from scalewise.doctor.case import Case
from scalewise.doctor.finding import Diagnosis
from scalewise.records.spec import Remedy, RunSpec, Turns

MOST_REPLAYS = 4
MOST_SECONDS = 60.0  # of one replay
LEAST_SECONDS = 20.0  # two runs have to start, and wait for each other
TIMES_AS_LONG = 3.0  # as the observed run
STEPS, LEAST_STEPS = 60, 20
REPEATS = 2  # where no turns can be taken
# The workers of a loader go on while their run waits for its turn: what it then waits for data would be too little.
_NO_TURNS = ("cached_input",)


@dataclass(frozen=True)
class Replay:
    """One remedy and the runs that show what it changes."""

    remedy: Remedy
    plain: tuple[RunSpec, ...]
    mended: tuple[RunSpec, ...]

    @property
    def specs(self) -> tuple[RunSpec, ...]:
        """In the order in which they are made: pair by pair."""
        return tuple(spec for pair in zip(self.plain, self.mended, strict=True) for spec in pair)


def plan_replays(case: Case, diagnosis: Diagnosis) -> tuple[Replay, ...]:
    """The distinct remedies of the findings, worst first; none where the script does not get through by itself."""
    outcome = case.run.outcome
    if outcome is None or not (outcome.measured or outcome.kind == "timed_out") or not case.ranks:
        return ()
    wanted = {one.remedy.label(): one.remedy for one in diagnosis.findings if one.remedy is not None}
    return tuple(_replay(case, remedy) for remedy in list(wanted.values())[:MOST_REPLAYS])


def replay_seconds(case: Case) -> float:
    """How long one replay may take."""
    observed = case.run.outcome.wall_seconds if case.run.outcome else 0.0
    return min(MOST_SECONDS, max(LEAST_SECONDS, TIMES_AS_LONG * observed))


def takes_turns(case: Case, remedy: Remedy) -> bool:
    """Rings are of ranks that the fork server has started; those of a launcher of the script's own take no turns."""
    spec = case.run.spec
    alone = spec.nodes is None and spec.launcher == "fork" and case.world_size == spec.ranks
    return alone and remedy.name not in _NO_TURNS


def _replay(case: Case, remedy: Remedy) -> Replay:
    seconds = replay_seconds(case)
    label = re.sub(r"[^a-z0-9]+", "-", remedy.label().lower()).strip("-")
    base = replace(
        case.run.spec,
        examine=True,
        turns=None,
        enough_steps=_steps(_loop_seconds(case), seconds),
        limit_seconds=seconds,
    )
    if takes_turns(case, remedy):
        ring = f"replay-{label}"
        plain_run = replace(base, name=f"{ring}-plain", turns=Turns(ring, 0, 2))
        mended_run = replace(base, name=f"{ring}-mended", turns=Turns(ring, 1, 2), remedies=(remedy,))
        return Replay(remedy, (plain_run,), (mended_run,))
    limit = seconds / (2 * REPEATS)
    plain = [_repeat(base, f"replay-{label}-plain", repeat, limit) for repeat in range(REPEATS)]
    mended = [_repeat(base, f"replay-{label}-mended", repeat, limit) for repeat in range(REPEATS)]
    return Replay(remedy, tuple(plain), tuple(replace(spec, remedies=(remedy,)) for spec in mended))


def _repeat(base: RunSpec, name: str, repeat: int, limit_seconds: float) -> RunSpec:
    return replace(base, name=f"{name}-r{repeat}", repeat=repeat, limit_seconds=limit_seconds)


def _loop_seconds(case: Case) -> float:
    """From step to step in the observed run."""
    ends = [window.notes[-1].at_ns for window in case.first.windows]
    gaps = sorted(after - before for before, after in pairwise(ends))
    return gaps[len(gaps) // 2] / 1e9 if gaps else 0.0


def _steps(loop_seconds: float, seconds: float) -> int:
    """As many as half the time allows for two runs, the rest being for their start; the script may end before."""
    return max(LEAST_STEPS, min(STEPS, int(seconds / 4 / loop_seconds))) if loop_seconds else STEPS
