"""One number of ranks as a row of a table: measured here, predicted, missing, or on another machine's GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.propagate import exact
from scalewise.course.gpus import GpuStep, gpu_steps, known_of
from scalewise.course.homework1.comparable_rows import (
    ASKED,
    There,
    again,
    agreeing_rows,
    measured_there,
    on_gpus,
    row_at,
    scaling_rows,
)
from scalewise.course.homework1.doubts import doubt_of
from scalewise.course.homework1.predicted_ranks import ArmPrediction, PredictedRanks
from scalewise.course.selected_arms import COURSE_LEVEL, step_ratio
from scalewise.records.spec import AxisValue
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, number_cell
from scalewise.report.document import Cell, Mark, PlotSeries
from scalewise.units import ranks_phrase

GPU_NOTE = "Rows of GPUs: measured and predicted as in H1.2."
NO_BASE = "one rank was not measured"


@dataclass(frozen=True)
class RanksPoint:
    """One number of ranks of one arm, as tables show it."""

    ranks: int
    mark: Mark
    step: Cell  # ms
    speedup: Cell
    efficiency: Cell  # %
    speeds: Estimate | None  # the speedup; None for one rank, or if there is none
    runs: tuple[str, ...] = ()
    size: str = ""  # DIM × DEPTH

    @property
    def count(self) -> Cell:
        """The number of ranks."""
        return count_cell(self.ranks, mark=self.mark)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of ranks, step, speedup and efficiency."""
        return self.count, self.step, self.speedup, self.efficiency


def points_of_arm(
    evidence: Evidence, experiment: str, prediction: ArmPrediction, asked: Sequence[int] = ASKED, **axes: AxisValue
) -> tuple[RanksPoint, ...]:
    """Returns a point for every number of ranks measured or asked for, fewest first; none if nothing was run."""
    every = agreeing_rows(evidence, experiment, change="none", **axes)
    if not every:
        return ()
    rows = scaling_rows(evidence, experiment, change="none", **axes)
    seen, one, size = again(evidence), row_at(rows, 1), _size(evidence, every[0].run_names)
    found = []
    for row in rows:
        speeds = None if row.ranks == 1 else step_ratio(evidence, one, row)
        step = replace(estimate_cell(seen.widened(row.step_seconds), 1e3), doubt=doubt_of(evidence, row))
        found.append(_point(row.ranks, "measured", step, speeds, row.run_names, size))
    absent = {row.ranks: row for row in prediction.rows}
    for count in asked:
        there = measured_there(evidence, experiment, count, **axes) if row_at(rows, count) is None else None
        if there is not None:
            found.append(_point_there(there))
        elif row_at(rows, count) is None:
            failed = row_at(every, count)
            reason = failed.reason if failed is not None else ""
            hole = empty_cell(
                reason or f"no {ranks_phrase(count)} could be measured here", "failed" if reason else "missing"
            )
            lost = RanksPoint(count, hole.mark, hole, hole, hole, None, (), size)
            found.append(predicted_point(absent[count], size) if count in absent else lost)
    return tuple(sorted(found, key=lambda point: point.ranks))


def _point_there(there: There) -> RanksPoint:
    """Returns a point compared with one rank of its own machine, as a footnote says."""
    other, row = there.evidence, there.row
    told = f"Measured on {there.machine}; its speedup is over one rank there."
    step = replace(estimate_cell(again(other).widened(row.step_seconds), 1e3), doubt=told)
    return _point(row.ranks, "measured", step, step_ratio(other, there.one, row), (), _size(other, row.run_names))


def predicted_point(row: PredictedRanks, size: str = "") -> RanksPoint:
    """Returns the point of ranks that this machine does not have."""
    step = estimate_cell(row.step, 1e3, mark="predicted", note=row.step.method)
    return _point(row.ranks, "predicted", step, row.speedup, (row.run,), size)


def gpu_points(
    evidence: Evidence, experiment: str, asked: Sequence[int] = ASKED, **axes: AxisValue
) -> tuple[RanksPoint, ...]:
    """Returns points on GPUs, for a machine that has none; a machine with GPUs has its own rows."""
    if on_gpus(evidence):
        return ()
    return tuple(gpu_point(one) for one in gpu_steps(evidence, experiment, asked, **axes))


def gpu_point(one: GpuStep) -> RanksPoint:
    """Returns the point as it was measured or predicted on the other machine."""
    size = " × ".join(one.env[key] for key in ("DIM", "DEPTH") if key in one.env)
    step = estimate_cell(one.step.at(COURSE_LEVEL), 1e3, mark=one.mark, note=one.source)
    speeds = one.speedup.at(COURSE_LEVEL) if one.speedup and one.ranks > 1 else None
    return _point(one.ranks, one.mark, step, speeds, (), size)


def gpu_heading(evidence: Evidence) -> str:
    """Returns the heading above the rows of GPUs."""
    known = known_of(evidence)
    return f"On {known.device} GPUs, not on this machine" if known else "On GPUs, not on this machine"


def _point(ranks: int, mark: Mark, step: Cell, speeds: Estimate | None, runs: tuple[str, ...], size: str) -> RanksPoint:
    if ranks == 1:
        return RanksPoint(1, mark, step, number_cell(1.0, mark=mark), number_cell(100.0, mark=mark), None, runs, size)
    speedup = estimate_cell(speeds, mark=mark, why_empty=NO_BASE, note=step.note)
    share = speeds.times(1 / ranks) if speeds else None
    efficiency = estimate_cell(share, 100, mark=mark, why_empty=NO_BASE, note=step.note)
    return RanksPoint(ranks, mark, step, speedup, efficiency, speeds, runs, size)


def _size(evidence: Evidence, names: Sequence[str]) -> str:
    run = next((run for name in names if (run := evidence.run(name))), None)
    env = run.spec.env if run else {}
    return " × ".join(env[key] for key in ("DIM", "DEPTH") if key in env)


def speedup_series(name: str, points: Sequence[RanksPoint], *, first: bool = False) -> PlotSeries:
    """Returns the speedup over ranks, starting at one rank if `first`."""
    known = [(float(one.ranks), one.speeds) for one in points if one.speeds is not None]
    every = [*([(1.0, exact(1.0))] if first else []), *known]
    return PlotSeries(
        name,
        tuple(ranks for ranks, _ in every),
        tuple(one.value for _, one in every),
        tuple(one.low for _, one in every),
        tuple(one.high for _, one in every),
        "predicted" if any(one.mark == "predicted" for one in points) else "measured",
    )
