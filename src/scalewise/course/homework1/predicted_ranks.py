"""Predicts the step of ranks that this machine lacks, from a rehearsal and the link, corrected by its own check."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log

from scalewise.analysis.estimate import LOADED_RUN_CV, QUIET_RUN_CV, Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.machine_state import machine_state
from scalewise.analysis.ratio import ratio_of
from scalewise.analysis.summary import ArmRow
from scalewise.course.homework1.comparable_rows import measured_there, on_gpus, row_at, scaling_rows
from scalewise.course.homework1.training_link import training_link
from scalewise.course.selected_arms import COURSE_LEVEL
from scalewise.predict.answer import Checked
from scalewise.predict.measured_link import NoLink
from scalewise.predict.prediction import Predicted, Spread, predict, spread_of_errors
from scalewise.predict.rehearsed import NotRehearsed, RehearsedRank, rehearsed
from scalewise.predict.self_check import ModelError, model_error
from scalewise.predict.timeline import APART, Sharing
from scalewise.records.load import Run
from scalewise.records.spec import AxisValue
from scalewise.units import listed, seconds_text

CHECKED_IN = ("strong-scaling", "model-size", "batch-scaling")  # an error seen in one of them applies to all
ON_ITS_OWN_CORES = Sharing(work=1.0)  # gloo moves a message with the cores that compute: nothing runs beside it
MOST_MISS = 0.5  # root mean square of logarithms: if checks are off by more than 1.6 times, nothing is predicted


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
    return (*notes, f"{how} {checked}")


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
        return f"{count} ranks: {found.reason.rstrip('.')}"
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
