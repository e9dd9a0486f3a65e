"""Numbers of ranks that are not here: their step from a rehearsal and the link, with a 90 % interval and its check."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import exp, log
from statistics import NormalDist

from scalewise.analysis.estimate import LOADED_RUN_CV, QUIET_RUN_CV, Estimate
from scalewise.analysis.machine_state import machine_state
from scalewise.analysis.propagate import propagate
from scalewise.analysis.scaling import serial_fraction
from scalewise.analysis.summary import ArmRow
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.pieces import scales
from scalewise.explain.homework1.training_link import training_link
from scalewise.predict.answer import Checked
from scalewise.predict.measured_link import NoLink
from scalewise.predict.prediction import QUANTILE, Predicted, Range, Spread, predict, spread_of_errors
from scalewise.predict.rehearsed import NotRehearsed, Rehearsed, rehearsed
from scalewise.predict.self_check import model_spread
from scalewise.predict.timeline import APART, Sharing
from scalewise.records.spec import AxisValue
from scalewise.results.run import Run
from scalewise.units import seconds_text

CHECKED_IN = ("strong-scaling", "model-size")  # an error seen in one of them is the error of both
ON_ITS_OWN_CORES = Sharing(work=1.0)  # gloo moves a message with the cores that compute: nothing goes on beside it
MOST_MISS = 0.5  # root mean square of logarithms: checks that are off by more than 1.6 times foretell nothing
TO_90 = QUANTILE / NormalDist().inv_cdf(0.975)  # half a 95 % interval to half a 90 % one


@dataclass(frozen=True)
class Foretold:
    """One number of ranks as it would be; intervals are of 90 %."""

    ranks: int
    run: str
    step: Estimate  # seconds
    speedup: Estimate | None  # over the one rank that was measured
    communication_share: float  # of the step, that computing does not hide
    company: int
    guesses: tuple[str, ...]

    @property
    def efficiency(self) -> Estimate | None:
        """Speedup over ranks."""
        return _divided(self.speedup, self.ranks) if self.speedup else None

    @property
    def serial_fraction(self) -> Estimate | None:
        """Karp and Flatt's."""
        return serial_fraction(self.speedup, self.ranks) if self.speedup else None


@dataclass(frozen=True)
class Foretelling:
    """One arm's predictions, fewest ranks first."""

    rows: tuple[Foretold, ...] = ()
    checks: tuple[Checked, ...] = ()  # ranks that were rehearsed and measured; the prediction knew nothing of it
    refused: tuple[str, ...] = ()  # what could not be foretold, and why


@dataclass(frozen=True)
class _Laid:
    """A rehearsal laid over the link."""

    run: Run
    rehearsal: Rehearsed
    predicted: Predicted


def foretelling(evidence: Evidence, experiment: str, **axes: AxisValue) -> Foretelling:
    """Of the arm with these axis values."""
    rows: list[Foretold] = []
    refused: dict[str, None] = {}
    every = [check for name in CHECKED_IN for check in _checks(evidence, name)]
    checks = tuple(_checks(evidence, experiment, **axes))
    if spread_of_errors([check.ratio for check in every]) > MOST_MISS:
        worst = max(every, key=lambda check: abs(log(check.ratio)))
        missed = (
            f"a step of {seconds_text(worst.measured.value)} was predicted as {seconds_text(worst.predicted.value)}"
        )
        return Foretelling((), checks, (f"for the check went wrong: {missed}",))
    for run in _rehearsals(evidence, experiment, **axes):
        laid = _laid(evidence, run, model_spread([one.ratio for one in every]))
        if isinstance(laid, str):
            refused[laid] = None
        elif _measured(evidence, experiment, laid.rehearsal.ranks, **axes) is None:
            rows.append(_foretold(evidence, laid, experiment, **axes))
    return Foretelling(tuple(rows), checks, tuple(refused))


def _rehearsals(evidence: Evidence, experiment: str, **axes: AxisValue) -> list[Run]:
    found = [
        (run.spec.rehearse.world_size, run)
        for run in evidence.loaded.runs
        if run.spec.rehearse is not None and run.spec.experiment == experiment
        if all(str(run.spec.axes.get(name)) == str(value) for name, value in axes.items())
    ]
    return [run for _, run in sorted(found, key=lambda pair: pair[0])]


def _laid(evidence: Evidence, run: Run, error: float = 0.0) -> _Laid | str:
    """Or why not."""
    found = rehearsed(run)
    count = run.spec.rehearse.world_size if run.spec.rehearse else 0
    if isinstance(found, NotRehearsed):
        return f"{count} ranks: {found.reason.rstrip('.')}"
    link = training_link(evidence, found.ranks, run.spec.device)
    if isinstance(link, NoLink):
        return f"{count} ranks: {link.reason}"
    computing = LOADED_RUN_CV if machine_state(run).loaded else QUIET_RUN_CV
    sharing = APART if run.spec.device == "cuda" else ON_ITS_OWN_CORES
    predicted = predict(found, link, sharing, Spread(computing, link.spread, error))
    return _Laid(run, found, predicted)


def _checks(evidence: Evidence, experiment: str, **axes: AxisValue) -> Iterator[Checked]:
    for run in _rehearsals(evidence, experiment, **axes):
        laid = _laid(evidence, run)
        if isinstance(laid, str):
            continue
        measured = _measured(evidence, experiment, laid.rehearsal.ranks, **run.spec.axes)
        if measured is not None and measured.step_seconds is not None:
            step = measured.step_seconds
            yield Checked(laid.rehearsal.ranks, laid.predicted.step, Range(step.value, step.low, step.high))


def _measured(evidence: Evidence, experiment: str, ranks: int, **axes: AxisValue) -> ArmRow | None:
    rows = evidence.rows(experiment, intervention="none", **axes)
    return next((row for row in rows if row.ranks == ranks and scales(row)), None)


def _foretold(evidence: Evidence, laid: _Laid, experiment: str, **axes: AxisValue) -> Foretold:
    step, line = laid.predicted.step, laid.predicted.timeline
    company, ranks = laid.rehearsal.company, laid.rehearsal.ranks
    method = f"predicted, 90 % interval: rehearsed as {ranks} ranks by {company} at a time"
    found = Estimate(step.value, step.low, step.high, len(laid.rehearsal.tapes), 1, method)
    base = _measured(evidence, experiment, 1, **axes)
    guesses = laid.predicted.guesses
    if laid.run.spec.device == "cpu" and company < ranks:
        guesses = (*guesses, f"that {ranks} ranks slow each other's memory no more than {company} do")
    return Foretold(
        ranks=ranks,
        run=laid.run.spec.name,
        step=found,
        speedup=_speedup(base.step_seconds, found) if base is not None and base.step_seconds else None,
        communication_share=1 - line.compute_seconds / line.step_seconds if line.step_seconds else 0.0,
        company=company,
        guesses=guesses,
    )


def _speedup(base: Estimate, step: Estimate) -> Estimate:
    """Of logarithms, so that neither end can pass zero; the base's own interval is taken down to 90 %."""
    narrower = replace(
        base,
        low=base.value * exp(TO_90 * log(base.low / base.value)) if base.low > 0 else base.low,
        high=base.value * exp(TO_90 * log(base.high / base.value)),
    )
    found = propagate(lambda one, many: log(one / many), narrower, step, method=step.method)
    return replace(found, value=exp(found.value), low=exp(found.low), high=exp(found.high))


def _divided(found: Estimate, by: float) -> Estimate:
    return replace(found, value=found.value / by, low=found.low / by, high=found.high / by)
