"""The equal-work guard: two arms may be compared only if the evidence says that they did the same work."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log, sqrt
from statistics import stdev
from typing import Literal, Self

from scalewise.analysis.estimate import LEAST_DEGREES, Estimate, normal_quantile, t_quantile
from scalewise.analysis.series import Series
from scalewise.records.load import Run

Verified = Literal["seen", "declared", "same command"]
SAMPLES_SLACK = 0.01  # a last, smaller batch among few steps may shift a median of samples by less than this


class Precision(tuple[str, ...]):
    """The dtypes of parameters, and those in which autocast computed; itself it is what tables and JSON say of both."""

    dtypes: tuple[str, ...]
    autocast: tuple[str, ...]

    def __new__(cls, dtypes: Iterable[str] = (), autocast: Iterable[str] = ()) -> Self:
        """Makes the value from the two lists."""
        dtypes, autocast = tuple(dtypes), tuple(autocast)
        made = super().__new__(cls, (*dtypes, *(f"autocast {name}" for name in autocast)))
        made.dtypes, made.autocast = dtypes, autocast
        return made

    @property
    def of_products(self) -> str:
        """The dtype in which products were computed; empty if none was seen."""
        return (*self.autocast, *self.dtypes, "")[0]


@dataclass(frozen=True)
class Work:
    """The work of one arm per step, as far as it could be seen."""

    world_size: int
    samples: float | None  # over all ranks, per step
    parameters: int | None
    shapes_digest: str | None
    precision: Precision  # as far as it was seen
    optimizers: tuple[str, ...]
    optimizer_steps: int
    command: tuple[str, ...]  # script, arguments, environment: equal commands do equal work at equal world sizes
    changed: tuple[str, ...]  # changes that remove or add work


@dataclass(frozen=True)
class WorkVerdict:
    """The answer to whether two arms did equal work: refused with the differences, or allowed on some evidence."""

    allowed: bool
    evidence: Verified | None
    reasons: tuple[str, ...]  # why not; or, if allowed, the basis if nothing was seen


def work_of(run: Run, series: Series) -> Work:
    """The work of the run, from its rows."""
    models = [rank.model for rank in run.ranks if rank.model]
    model = models[0] if models else None
    staged = series.relation.kind == "pipeline"  # each rank has a part of the model
    autocast = {row.autocast for rows in series.rows for row in rows if row.autocast}
    return Work(
        world_size=run.spec.world_size,
        samples=series.global_samples(),
        parameters=sum(one.parameters for one in models) if staged else model.parameters if model else None,
        shapes_digest=model.shapes_digest if model and not staged else None,
        precision=Precision(model.dtypes if model else (), sorted(autocast)),
        optimizers=model.optimizers if model else (),
        optimizer_steps=series.optimizer_steps,
        command=(run.spec.script, *run.spec.args, *(f"{key}={run.spec.env[key]}" for key in sorted(run.spec.env))),
        changed=tuple(one.label() for one in run.spec.changes),
    )


def told_scaling(a: Work, b: Work) -> Literal["strong", "weak"] | None:
    """The scaling that the samples show: the same in all, or the same per rank; None if neither, or if unseen."""
    if a.samples is None or b.samples is None:
        return None
    if _same(a.samples, b.samples):
        return "strong"
    return "weak" if _same(a.samples / a.world_size, b.samples / b.world_size) else None


DIFFERENCES = ("samples", "model", "precision", "optimizers", "changes")  # in the work, by their names for `allow`


def equal_work(
    a: Work,
    b: Work,
    scaling: Literal["strong", "weak"] = "strong",
    *,
    declared: bool = False,
    allow: Collection[str] = (),
) -> WorkVerdict:
    """Checks for equal samples in all (strong) or per rank (weak), model, precision and optimizers.

    If samples cannot be seen, equal commands at equal world sizes do equal work; at different world sizes the same
    `--batch 64` may mean 64 in all or 64 per rank, so only a suite that declares its scaling is believed.
    `allow` names `DIFFERENCES` that are the question itself.
    """
    found = {
        "samples": _samples_reason(a, b, scaling),
        "model": _model_reason(a, b),
        "precision": _differs("precision", _listed(a.precision), _listed(b.precision)),
        "optimizers": _differs("optimizers", _listed(a.optimizers), _listed(b.optimizers))
        or _differs("optimizer steps per iteration", str(a.optimizer_steps), str(b.optimizer_steps)),
        "changes": _differs("changes", _listed(a.changed), _listed(b.changed)),
    }
    reasons = tuple(reason for name, reason in found.items() if reason and name not in allow)
    if reasons:
        return WorkVerdict(False, None, reasons)
    if (a.samples is not None and b.samples is not None) or "samples" in allow:
        return WorkVerdict(True, "seen", ())
    return _unseen(a, b, declared)


def _unseen(a: Work, b: Work, declared: bool) -> WorkVerdict:
    if a.command == b.command and a.world_size == b.world_size:
        return WorkVerdict(True, "same command", ("samples per step could not be seen; the commands are the same",))
    if a.command == b.command and declared:
        return WorkVerdict(True, "declared", ("samples per step could not be seen; equal work as the suite declares",))
    return WorkVerdict(False, None, ("cannot verify equal work: samples per step could not be seen",))


def _samples_reason(a: Work, b: Work, scaling: str) -> str:
    if a.samples is None or b.samples is None:
        return ""
    if scaling == "weak":
        return _differs("samples per rank and step", a.samples / a.world_size, b.samples / b.world_size)
    return _differs("samples per step over all ranks", a.samples, b.samples)


def _model_reason(a: Work, b: Work) -> str:
    if a.parameters is None or b.parameters is None:
        return ""
    if a.parameters != b.parameters:
        return _differs("parameters", f"{a.parameters:,}", f"{b.parameters:,}")
    if a.shapes_digest and b.shapes_digest and a.shapes_digest != b.shapes_digest:
        return f"shapes of the parameters differ ({a.shapes_digest} and {b.shapes_digest})"
    return ""


def _same(a: float, b: float) -> bool:
    return abs(a - b) <= SAMPLES_SLACK * max(a, b)


def _differs(what: str, a: float | str, b: float | str) -> str:
    same = _same(a, b) if isinstance(a, float) and isinstance(b, float) else a == b
    shown = [f"{value:g}" if isinstance(value, float) else value for value in (a, b)]
    return "" if same else f"{what} differ ({shown[0]} and {shown[1]})"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) or "none"


LEAST_EXPERIMENTS = 3


def drift_of(steps: Sequence[Estimate]) -> float:
    """The standard deviation of the logarithm between steps of the same work, minus what their intervals explain.

    Zero below LEAST_EXPERIMENTS: two numbers say hardly anything about how far a third would lie from them.
    """
    known = [one for one in steps if one.low > 0]
    if len(known) < LEAST_EXPERIMENTS:
        return 0.0
    explained = sum(_log_error(one) ** 2 for one in known) / len(known)
    return sqrt(max(0.0, stdev([log(one.value) for one in known]) ** 2 - explained))


def with_drift(found: Estimate, drift: float, experiments: int) -> Estimate:
    """The step as one experiment measured it, with an interval that also includes the drift between experiments.

    The two add in squares. Ratios of arms of one experiment do not need it: they were measured in turns.
    """
    if not drift or found.low <= 0:
        return found
    more = t_quantile(found.level, max(LEAST_DEGREES, experiments - 1)) * drift
    down, up = hypot(log(found.value / found.low), more), hypot(log(found.high / found.value), more)
    method = f"{found.method}; widened by the spread between {experiments} experiments with the same work"
    return replace(found, low=found.value * exp(-down), high=found.value * exp(up), method=method)


def _log_error(step: Estimate) -> float:
    """The standard error of the logarithm, from the step's own interval."""
    return log(step.high / step.low) / (2 * normal_quantile(step.level))
