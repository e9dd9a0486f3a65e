"""The runs of one replay: the observed run as it is and with one change applied, in turns step by step; pure."""

import re
from dataclasses import dataclass, replace
from itertools import product

from scalewise.records.changes import declared
from scalewise.records.spec import Change, Examined, RunSpec, Timed, Turns

MOST_SECONDS = 60.0  # of one replay
LEAST_SECONDS = 20.0  # two runs have to start, and wait for each other
TIMES_AS_LONG = 3.0  # as the observed run
STEPS, LEAST_STEPS = 60, 20
MOST_REPEATS = 5  # as many as let the spread between them be seen
SHORTEST_RUN_SECONDS = 0.5
RUNS_AND_TURNS = 3.0  # two runs, and what they wait for each other


@dataclass(frozen=True)
class Observed:
    """The facts that a plan needs to know of the run that is to be replayed."""

    spec: RunSpec
    wall_seconds: float
    complete: bool  # the script itself ended the run
    steps: int
    loop_seconds: float  # from step to step; 0: not known
    world_size: int  # as the ranks saw it, which for a script with a launcher of its own is not what was asked
    fits_twice: bool  # both runs of a ring can be in memory at once


@dataclass(frozen=True)
class Replay:
    """One change and the runs that show what it changes."""

    change: Change
    plain: tuple[RunSpec, ...]
    fixed: tuple[RunSpec, ...]

    @property
    def pairs(self) -> tuple[tuple[RunSpec, RunSpec], ...]:
        """The pairs of runs, plain and fixed, in the order in which they are made."""
        return tuple(zip(self.plain, self.fixed, strict=True))


def replay_seconds(wall_seconds: float) -> float:
    """The time limit for one replay of a run that took this long."""
    return min(MOST_SECONDS, max(LEAST_SECONDS, TIMES_AS_LONG * wall_seconds))


def takes_turns(observed: Observed, change: Change) -> bool:
    """Rings are of ranks that the fork server has started; those of a launcher of the script's own take no turns.

    The workers of a loader go on while their run waits for its turn: what it then waits for data would be too little.
    A host that runs ahead of its GPU cannot do so across a turn.
    """
    spec = observed.spec
    alone = spec.nodes is None and spec.launcher == "fork" and observed.world_size == spec.ranks
    return alone and not declared(change.name).between_steps and observed.fits_twice


def replay_of(observed: Observed, change: Change, timed: bool) -> Replay:
    """The first two are examined; `timed`: the change is a matter of milliseconds, which those are not asked for.

    Examining takes time. A rank that waits for messages hides it in the wait; once the fix is applied, it cannot.
    """
    compiles = declared(change.name).compiles
    seconds = MOST_SECONDS if compiles else replay_seconds(observed.wall_seconds)
    stall_seconds = MOST_SECONDS if compiles else observed.spec.stall_seconds
    turns = takes_turns(observed, change)
    # Runs that take no turns differ by chance, and two of them hardly tell by how much.
    repeats = _repeats(observed, seconds, 1 if turns else 2 if change.name == "cached_input" else 3) if timed else 0
    steps = _steps(observed.loop_seconds, seconds / max(1, repeats))
    label = re.sub(r"[^a-z0-9]+", "-", change.label().lower()).strip("-")
    fixed = (*(one for one in observed.spec.changes if one.name != change.name), change)
    sides: tuple[list[RunSpec], list[RunSpec]] = ([], [])
    for repeat, (index, side) in product(range(1 + repeats), enumerate(sides)):
        ring = f"replay-{label}-r{repeat}"
        spec = replace(
            observed.spec,
            name=f"{ring}-{('plain', 'mended')[index]}",
            repeat=repeat,
            kind=Timed() if repeat else Examined(show_gradients=True),
            changes=fixed if index else observed.spec.changes,
            turns=Turns(ring, index, 2) if turns else None,
            enough_steps=LEAST_STEPS if timed and not repeat else steps,
            limit_seconds=seconds,
            stall_seconds=stall_seconds,
        )
        side.append(spec)
    return Replay(change, *map(tuple, sides))


def _repeats(observed: Observed, seconds: float, least: int) -> int:
    """Returns the number of repeats: more than the least if the script makes few steps, as far as the time allows."""
    if not observed.complete or not observed.steps:
        return least
    affordable = int(seconds / (RUNS_AND_TURNS * max(observed.wall_seconds, SHORTEST_RUN_SECONDS)))
    return max(least, min(MOST_REPEATS, -(-STEPS // observed.steps), affordable))


def _steps(loop_seconds: float, seconds: float) -> int:
    """Returns as many steps as half the time allows for two runs; the rest is for starting. Scripts may end earlier."""
    return max(LEAST_STEPS, min(STEPS, int(seconds / 4 / loop_seconds))) if loop_seconds else STEPS
