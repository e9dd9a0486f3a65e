"""Runs of a folder that measure nothing, as what they are: examined for the doctor, or rehearsed for a prediction."""

from collections.abc import Iterable
from dataclasses import dataclass

from scalewise.records.load import Run


@dataclass(frozen=True)
class ExaminedRun:
    """A run that notes were taken of; its times are in no table."""

    run: str
    experiment: str
    ranks: int
    changed: tuple[str, ...]  # from outside: the fix of a replay
    failure: str  # empty: it got through


@dataclass(frozen=True)
class RehearsedRun:
    """A run whose few processes represented ranks of a larger group; its times are in no table."""

    run: str
    experiment: str
    ranks: int  # that it stood for
    company: int  # processes that were really there
    failure: str  # empty: it can be used


def examined_runs_of(runs: Iterable[Run]) -> tuple[ExaminedRun, ...]:
    """The examined runs of a folder, in the order in which they were started."""
    found = sorted((run for run in runs if run.spec.examined), key=lambda run: run.started_unix_seconds or 0.0)
    return tuple(
        ExaminedRun(
            run.spec.name,
            run.spec.experiment,
            run.spec.world_size,
            tuple(one.label() for one in run.spec.changes),
            _failure(run),
        )
        for run in found
    )


def rehearsed_runs_of(runs: Iterable[Run]) -> tuple[RehearsedRun, ...]:
    """The rehearsed runs of a folder, by name; one that did not end counts as failed."""
    found = [
        RehearsedRun(run.spec.name, run.spec.experiment, run.spec.rehearsed.world_size, run.spec.ranks, _failure(run))
        for run in runs
        if run.spec.rehearsed is not None
    ]
    return tuple(sorted(found, key=lambda one: (one.experiment, one.ranks, one.run)))


def _failure(run: Run) -> str:
    if run.measured:
        return ""
    return run.outcome.sentence if run.outcome else "it is not finished"
