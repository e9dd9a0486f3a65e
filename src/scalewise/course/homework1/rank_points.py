"""Numbers of ranks as rows of tables: measured here or there, on GPUs, or predicted from a rehearsal and the link."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log

from scalewise.analysis.estimate import LOADED_RUN_CV, QUIET_RUN_CV, Estimate, exact
from scalewise.analysis.evidence import Evidence, once_per_report
from scalewise.analysis.fits import link_points
from scalewise.analysis.machine_state import machine_state
from scalewise.analysis.ratio import ratio_of
from scalewise.analysis.summary import ArmRow
from scalewise.course.gpus import GpuStep, gpu_steps, known_of
from scalewise.course.homework1.comparable_rows import (
    ASKED,
    There,
    again,
    agreeing_rows,
    doubt_of,
    measured_there,
    on_gpus,
    row_at,
    scaling_rows,
)
from scalewise.course.measured_arms import COURSE_LEVEL, step_ratio
from scalewise.course.page_pieces import estimates_series
from scalewise.predict.answer import Checked
from scalewise.predict.catalogue import named_link
from scalewise.predict.link import Link
from scalewise.predict.measured_link import NoLink, measured_link
from scalewise.predict.order import certainty
from scalewise.predict.prediction import Predicted, Spread, predict, spread_of_errors
from scalewise.predict.prediction_text import certain
from scalewise.predict.probe import LinkProbe, place_of
from scalewise.predict.rehearsed import NotRehearsed, RehearsedRank, rehearsed
from scalewise.predict.seen_errors import ModelError
from scalewise.predict.self_check import model_error
from scalewise.predict.timeline import APART, Sharing
from scalewise.predict.wire_fit import MeasuredCollective
from scalewise.records.load import Run
from scalewise.records.spec import AxisValue, Device
from scalewise.report.cells import count_cell, empty_cell, estimate_cell, number_cell
from scalewise.report.document import Cell, Mark, PlotSeries
from scalewise.units import listed, ranks_phrase, seconds_text, without_stop

EXPERIMENT = "link-in-training"
# Part of a GPU's name -> its link. For other GPUs no link is assumed.
BY_GPU = (("A100-SXM", "nvlink3"), ("H100 80GB HBM3", "nvlink4"), ("H200", "nvlink4"), ("B200", "nvlink5"))
MOST_OF_A_NODE = 8
CHECKED_IN = ("strong-scaling", "model-size", "batch-scaling")  # an error seen in one of them applies to all
ON_ITS_OWN_CORES = Sharing(work=1.0)  # gloo moves a message with the cores that compute: nothing runs beside it
MOST_MISS = 0.5  # root mean square of logarithms: if checks are off by more than 1.6 times, nothing is predicted
GPU_NOTE = "Rows of GPUs: measured and predicted as in H1.2."
NO_BASE = "one rank was not measured"


def training_link(evidence: Evidence, ranks: int, device: Device) -> Link | NoLink:
    """Returns the link among so many ranks, or why there is none."""
    runs = [run for run in evidence.loaded.runs if run.spec.experiment == EXPERIMENT and _real(run)]
    points = tuple(MeasuredCollective(one.ranks, one.bytes, one.seconds) for run in runs for one in link_points(run))
    if not points or evidence.machine is None:
        return _by_name(evidence, ranks) if device == "cuda" else NoLink("no two ranks exchanged anything here")
    place = place_of(evidence.machine, device, runs[0].spec.threads_per_rank or 0)
    return measured_link(LinkProbe(place, runs[0].started_unix_seconds or 0.0, 0.0, points), ranks)


def _real(run: Run) -> bool:
    return run.measured and not run.spec.oversubscribed and not run.spec.emulated


def _by_name(evidence: Evidence, ranks: int) -> Link | NoLink:
    gpus = evidence.machine.gpus if evidence.machine else ()
    name = gpus[0].name if gpus else "no GPU"
    entry = next((link for part, link in BY_GPU if part in name and "NVL" not in name), "")  # NVL: cards in pairs
    if not entry:
        return NoLink(f"no link was measured, and the one between GPUs of this kind ({name}) is not known")
    if ranks > MOST_OF_A_NODE:
        return NoLink(f"{ranks} ranks are more than one node, and what would join the nodes is not known")
    link = named_link(entry, most_ranks=ranks)
    return replace(link, guesses=(f"that {ranks} {name} are joined by {entry} (catalogue)", *link.guesses))


@dataclass(frozen=True)
class PredictedRanks:
    """One number of ranks as predicted."""

    ranks: int
    run: str  # the rehearsal
    step: Estimate  # seconds, shifted by the check
    speedup: Estimate | None  # over the one rank that was measured
    communication_share: float  # share of the step that communication takes, as computing does not hide it
    guesses: tuple[str, ...]

    @property
    def efficiency(self) -> Estimate | None:
        """The speedup over the number of ranks."""
        return self.speedup.times(1 / self.ranks) if self.speedup else None


@dataclass(frozen=True)
class ArmPrediction:
    """One arm's predicted rows, fewest ranks first."""

    rows: tuple[PredictedRanks, ...] = ()
    checks: tuple[Checked, ...] = ()  # ranks that were rehearsed and measured, which the prediction did not use
    shift: float = 1.0  # factor on predicted steps, as the checks were off by as much
    refused: tuple[str, ...] = ()  # what could not be predicted, and why


@dataclass(frozen=True)
class _Laid:
    """A rehearsal with the link's times added."""

    run: Run
    rehearsal: RehearsedRank
    predicted: Predicted


@once_per_report
def predicted_ranks(evidence: Evidence, experiment: str, **axes: AxisValue) -> ArmPrediction:
    """Returns the prediction for the arm with these axis values."""
    every = [check for name in CHECKED_IN for check in _checks(evidence, name)]
    own = tuple(_checks(evidence, experiment, **axes))
    if spread_of_errors([check.ratio for check in every]) > MOST_MISS:
        worst = max(every, key=lambda check: abs(log(check.ratio)))
        missed = f"{seconds_text(worst.measured.value)} was predicted as {seconds_text(worst.predicted.value)}"
        return ArmPrediction((), own, refused=(f"the check went wrong: a step of {missed}",))
    # The arm's own check shows best how far its prediction is off; without one, the checks of the others are used.
    error = model_error(own or every)
    rows: list[PredictedRanks] = []
    refused: dict[str, None] = {}
    for run in _rehearsals(evidence, experiment, **axes):
        laid = _laid(evidence, run, error)
        if isinstance(laid, str):
            refused[laid] = None
        elif not _known(evidence, experiment, laid.rehearsal.ranks, **axes):
            base = _measured(evidence, experiment, 1, **axes)
            rows.append(_row(laid, base))
    return ArmPrediction(tuple(rows), own, exp(-error.shift), tuple(refused))


def told(
    evidence: Evidence, found: Sequence[tuple[str, ArmPrediction]], *, said_before: bool = False
) -> tuple[str, ...]:
    """Returns notes for the table: how rows were predicted, what the check found, and why there are none.

    If an earlier table has said how, only the checks are given.
    """
    rows = [row for _, one in found for row in one.rows]
    refused = dict.fromkeys(reason for _, one in found for reason in one.refused)
    notes = [f"Not predicted: {reason}." for reason in refused]
    if not rows:
        return tuple(notes)
    counts = listed([str(count) for count in sorted({row.ranks for row in rows})])
    device = "GPU" if on_gpus(evidence) else "core"
    how = (
        f"Predicted: {counts} ranks with a {device} each, from what one such rank computes and hands over, and from "
        f"{'the data sheet of their link' if on_gpus(evidence) else 'the link between the ranks here'}."
    )
    how = "Predicted as in H1.2." if said_before else how
    checks = [
        f"{name} {check.ranks} ranks {seconds_text(check.predicted.value)} for {seconds_text(check.measured.value)} "
        f"measured ({100 * (check.ratio - 1):+.0f} %)".lstrip()
        for name, one in found
        for check in one.checks
    ]
    checked = (
        f"Checked on {listed(checks)}: predicted steps are shifted by what of that is likely to last, their intervals "
        "widened by the rest."
        if checks
        else "Shifted and widened by what the checks of H1.2 and H1.3 found."
        if any(one.shift != 1.0 for _, one in found)
        else "It could not be checked here, where no more than one rank can be measured."
    )
    return (*notes, f"{how} {checked}", *_orders(found))


def _orders(found: Sequence[tuple[str, ArmPrediction]]) -> Iterator[str]:
    """Yields one sentence for each arm with several predicted rows: how certain their order is."""
    for name, one in found:
        known = [(row.ranks, row.speedup) for row in one.rows if row.speedup is not None]
        pairs = [
            f"{more} ranks do more than {few} with {certain(certainty(after, before))}"
            for (few, before), (more, after) in pairwise(known)
        ]
        if pairs:
            yield f"{name} Order certain: {', '.join(pairs)}.".strip()


def _known(evidence: Evidence, experiment: str, ranks: int, **axes: AxisValue) -> bool:
    """Returns True if the ranks were measured here or on another machine of the report, and need no prediction."""
    here = _measured(evidence, experiment, ranks, **axes)
    return here is not None or measured_there(evidence, experiment, ranks, **axes) is not None


def _row(laid: _Laid, base: ArmRow | None) -> PredictedRanks:
    line = laid.predicted.timeline
    company, ranks = laid.rehearsal.company, laid.rehearsal.ranks
    method = f"predicted: rehearsed as {ranks} ranks by {company} at a time, shifted by its check"
    step = replace(laid.predicted.step.at(COURSE_LEVEL), method=method)
    one = base.step_seconds if base is not None else None
    return PredictedRanks(
        ranks=ranks,
        run=laid.run.spec.name,
        step=step,
        speedup=ratio_of(one.at(COURSE_LEVEL), step, method) if one is not None else None,
        communication_share=1 - line.compute_seconds / line.step_seconds if line.step_seconds else 0.0,
        guesses=laid.predicted.guesses,
    )


def _rehearsals(evidence: Evidence, experiment: str, **axes: AxisValue) -> list[Run]:
    found = [
        (run.spec.rehearsed.world_size, run)
        for run in evidence.loaded.runs
        if run.spec.rehearsed is not None and run.spec.experiment == experiment
        if all(str(run.spec.axes.get(name)) == str(value) for name, value in axes.items())
    ]
    return [run for _, run in sorted(found, key=lambda pair: pair[0])]


def _laid(evidence: Evidence, run: Run, error: ModelError | None = None) -> _Laid | str:
    """Returns the rehearsal with the link's times added, or the reason why it cannot be predicted."""
    found = rehearsed(run)
    count = run.spec.rehearsed.world_size if run.spec.rehearsed else 0
    if isinstance(found, NotRehearsed):
        return f"{count} ranks: {without_stop(found.reason)}"
    link = training_link(evidence, found.ranks, run.spec.device)
    if isinstance(link, NoLink):
        return f"{count} ranks: {link.reason}"
    computing = LOADED_RUN_CV if machine_state(run).loaded else QUIET_RUN_CV
    sharing = APART if run.spec.device == "cuda" else ON_ITS_OWN_CORES
    spread = Spread(computing, link.spread)
    if error is not None:
        spread = replace(spread, model=error.spread, shift=error.shift)
    predicted = predict(found, link, sharing, spread)
    return _Laid(run, found, predicted)


def _checks(evidence: Evidence, experiment: str, **axes: AxisValue) -> Iterator[Checked]:
    for run in _rehearsals(evidence, experiment, **axes):
        laid = _laid(evidence, run)
        if isinstance(laid, str):
            continue
        measured = _measured(evidence, experiment, laid.rehearsal.ranks, **run.spec.axes)
        if measured is not None and measured.step_seconds is not None:
            step = measured.step_seconds
            yield Checked(laid.rehearsal.ranks, laid.predicted.step.at(COURSE_LEVEL), step.at(COURSE_LEVEL))


def _measured(evidence: Evidence, experiment: str, ranks: int, **axes: AxisValue) -> ArmRow | None:
    return row_at(scaling_rows(evidence, experiment, change="none", **axes), ranks)


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
            missing = empty_cell(
                reason or f"no {ranks_phrase(count)} could be measured here", "failed" if reason else "missing"
            )
            lost = RanksPoint(count, missing.mark, missing, missing, missing, None, (), size)
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
    predicted = any(one.mark == "predicted" for one in points)
    return estimates_series(name, every, style="predicted" if predicted else "measured")
