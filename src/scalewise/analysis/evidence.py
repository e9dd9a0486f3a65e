"""The data that answers and sections may use: one suite's analysis, its inspected runs and its machine."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast

from scalewise.analysis.inspected_run import Inspection
from scalewise.analysis.summary import Analysis, ArmRow, ExperimentAnalysis
from scalewise.records.load import LoadedSuite, Run
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import AxisValue

Find = TypeVar("Find", bound=Callable[..., Any])


@dataclass(frozen=True)
class Evidence:
    """The evidence of one suite's folder; what is missing is None or empty, never made up."""

    loaded: LoadedSuite
    analysis: Analysis
    inspections: tuple[Inspection, ...]
    machine: MachineFacts | None
    elsewhere: tuple["Evidence", ...] = ()  # the same suite, measured on other machines
    found: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)  # by `once_per_report`

    def experiment(self, name: str) -> ExperimentAnalysis | None:
        """The experiment with that name in the suite; None if there is none."""
        return next((one for one in self.analysis.experiments if one.name == name), None)

    def rows(self, experiment: str, *, change: str = "none", **axes: AxisValue) -> tuple[ArmRow, ...]:
        """The arms with these axis values, fewest ranks first, failed ones included."""
        found = self.experiment(experiment)
        rows = found.rows if found else ()
        chosen = [
            row for row in rows if row.change == change and all(str(row.axes.get(k)) == str(v) for k, v in axes.items())
        ]
        return tuple(sorted(chosen, key=lambda row: row.ranks))

    def row(self, experiment: str, *, ranks: int = 1, change: str = "none", **axes: AxisValue) -> ArmRow | None:
        """The one arm with these values; None if it has no figures."""
        rows = self.rows(experiment, change=change, **axes)
        return next((row for row in rows if row.ranks == ranks and row.step_seconds is not None), None)

    def inspection(self, experiment: str, *, ranks: int | None = None, **axes: AxisValue) -> Inspection | None:
        """The inspection of the arm with these axis values; None if there is none."""
        for one in self.inspections:
            run = self.run(one.run)
            if run is None or run.spec.experiment != experiment or (ranks and run.spec.world_size != ranks):
                continue
            if all(str(run.spec.axes.get(k)) == str(v) for k, v in axes.items()):
                return one
        return None

    def asked_ranks(self, experiment: str) -> tuple[int, ...]:
        """The numbers of ranks that the suite's file asks for; empty if it does not say."""
        return next((one.ranks for one in self.loaded.experiments if one.name == experiment), ())

    def run(self, name: str) -> Run | None:
        """The run whose folder has that name; None if there is none."""
        return next((run for run in self.loaded.runs if run.spec.name == name), None)


def once_per_report(find: Find) -> Find:
    """A function of evidence that computes its value once for the same arguments, and the next time gives it again."""

    @wraps(find)
    def known(evidence: Evidence, *args: Any, **axes: Any) -> Any:
        key = (find, args, tuple(sorted(axes.items())))
        if key not in evidence.found:
            evidence.found[key] = find(evidence, *args, **axes)
        return evidence.found[key]

    return cast(Find, known)
