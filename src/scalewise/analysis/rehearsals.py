"""Lists the rehearsed runs of a folder; they are no measurement of ranks, but the basis of a prediction."""

from collections.abc import Iterable
from dataclasses import dataclass

from scalewise.results.run import Run


@dataclass(frozen=True)
class RehearsedRun:
    """A run whose few processes represented ranks of a larger group; its times are in no table."""

    run: str
    experiment: str
    ranks: int  # that its processes represented
    company: int  # processes that really ran
    failure: str  # empty: it can be used


def rehearsed_runs_of(runs: Iterable[Run]) -> tuple[RehearsedRun, ...]:
    """The rehearsed runs of a folder, by name; one that did not end counts as failed."""
    found = [
        RehearsedRun(run.spec.name, run.spec.experiment, run.spec.rehearse.world_size, run.spec.ranks, _failure(run))
        for run in runs
        if run.spec.rehearse is not None
    ]
    return tuple(sorted(found, key=lambda one: (one.experiment, one.ranks, one.run)))


def timed(run: Run) -> bool:
    """Tells whether the run's times are those of real ranks with nothing but the watcher beside them."""
    return not run.spec.inspect and run.spec.rehearse is None


def _failure(run: Run) -> str:
    if run.measured:
        return ""
    return run.outcome.sentence if run.outcome else "it is not finished"
