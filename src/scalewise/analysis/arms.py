"""Groups runs of the same thing into arms: an arm is one point of an experiment, measured once or more."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from scalewise.analysis.estimate import LOADED_RUN_CV, QUIET_RUN_CV, RunMedian
from scalewise.analysis.machine_state import machine_state
from scalewise.analysis.ratio import Side, steps_in_turn
from scalewise.analysis.series import Series, series
from scalewise.analysis.work import Work, work_of
from scalewise.plan.words import changes_text, value_text
from scalewise.records.load import Run
from scalewise.records.spec import ARM, RunSpec
from scalewise.units import counted


@dataclass(frozen=True)
class Measured:
    """A run that may be used, with its series."""

    run: Run
    series: Series
    work: Work
    median: RunMedian


@dataclass(frozen=True)
class ArmRuns:
    """The repeats of one arm, usable or not."""

    spec: RunSpec  # of its first run; repeats differ only in name and repeat
    runs: tuple[Run, ...]
    measured: tuple[Measured, ...]

    @property
    def label(self) -> str:
        """A name for people: `dim 1024, slow rank 20 ms on rank 0, 2 ranks`."""
        parts = [f"{name} {value_text(value)}" for name, value in self.spec.axes.items()]
        parts += [one.label() for one in self.spec.changes]
        world = self.spec.world_size
        return ", ".join([*parts, counted(world, "rank")])

    @property
    def change(self) -> str:
        """The arm's changes as a suite writes them."""
        return changes_text(self.spec.changes)

    @property
    def run_cv(self) -> float:
        """The spread between runs to assume: larger if the machine was loaded."""
        loaded = any(machine_state(one.run).loaded for one in self.measured)
        return LOADED_RUN_CV if loaded else QUIET_RUN_CV

    def side(self) -> Side:
        """The data about this arm that a ratio needs."""
        starts = [one.run.started_unix_seconds for one in self.measured]
        known = [start for start in starts if start is not None]
        return Side(
            medians=tuple(one.median for one in self.measured),
            repeats=tuple(one.run.spec.repeat for one in self.measured),
            started=tuple(known) if len(known) == len(starts) else (),
            folder=str(self.runs[0].folder.parent),
            run_cv=self.run_cv,
            in_turn=tuple(steps_in_turn(one.run, one.series) for one in self.measured),
        )


def arm_of(runs: Sequence[Run]) -> ArmRuns:
    """An arm made of runs that are known to belong together."""
    measured = []
    for run in runs:
        found = series(run) if run.measured else None
        if found is not None:
            measured.append(Measured(run, found, work_of(run, found), found.median()))
    return ArmRuns(runs[0].spec, tuple(runs), tuple(measured))


def arms_of(runs: Sequence[Run]) -> tuple[ArmRuns, ...]:
    """Runs grouped into arms, in the order of their first repeat, which is made as the suite declares it.

    Only timed runs are put into arms: the times of the other kinds are not those of real ranks left alone.
    """

    rings: dict[str, float] = {}  # runs of a ring start at once: its first start orders them, then their places in it
    for run in runs:
        if run.spec.turns is not None:
            ring = run.spec.turns.ring
            rings[ring] = min(_started(run), rings.get(ring, inf))

    def place(run: Run) -> tuple[int, float, int, str]:
        turns = run.spec.turns
        started = rings[turns.ring] if turns else _started(run)
        return run.spec.repeat, started, turns.index if turns else 0, run.spec.name

    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in sorted((run for run in runs if run.spec.timed), key=place):
        groups.setdefault(run.spec.key(ARM), []).append(run)
    return tuple(arm_of(group) for group in groups.values())


def _started(run: Run) -> float:
    started = run.started_unix_seconds
    return inf if started is None else started
