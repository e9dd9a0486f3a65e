"""Finds a configuration that several experiments of a suite measured, and how far its steps differ.

Within an experiment arms are interleaved, and changes of the machine cancel in their ratio. Two experiments
are minutes apart, so their steps differ by what changed on the machine in between. An interval that is based on one
of them does not include that; the spread between them does.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log, sqrt
from statistics import stdev

from scalewise.analysis.arms import ArmRuns, arms_of
from scalewise.analysis.estimate import LEAST_DEGREES, Estimate, estimate, normal_quantile, t_quantile
from scalewise.records.load import Run
from scalewise.records.spec import CONFIGURATION

LEAST_EXPERIMENTS = 3


@dataclass(frozen=True)
class SameArm:
    """One of the arms that did the same work."""

    experiment: str
    run_names: tuple[str, ...]
    step_seconds: Estimate


@dataclass(frozen=True)
class SameWork:
    """The arms of two or more experiments that did the same work."""

    arms: tuple[SameArm, ...]  # in the order in which they were measured

    @property
    def count(self) -> int:
        """The number of times that the configuration was measured."""
        return len(self.arms)

    @property
    def lowest(self) -> Estimate:
        """The step of the arm with the shortest step."""
        return min((one.step_seconds for one in self.arms), key=lambda step: step.value)

    @property
    def highest(self) -> Estimate:
        """The step of the arm with the longest step."""
        return max((one.step_seconds for one in self.arms), key=lambda step: step.value)

    @property
    def drift(self) -> float:
        """The standard deviation of the logarithm between experiments that the arms' own intervals do not explain."""
        return drift_of([one.step_seconds for one in self.arms])

    def holds(self, run_names: Collection[str]) -> bool:
        """Tells whether the arm of these runs is one of them."""
        return any(set(run_names) & set(one.run_names) for one in self.arms)

    def widen(self, found: Estimate) -> Estimate:
        """The step with an interval that also holds for another experiment of the suite."""
        return with_drift(found, self.drift, self.count)


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


def same_work(
    runs: Sequence[Run], regardless_of: Collection[str] = (), nothing_at_zero: Collection[str] = ()
) -> tuple[SameWork, ...]:
    """Every configuration that several experiments measured.

    Equal are script, arguments, environment, ranks and their cores, changes, and what was
    seen of the model, the batch and the precision. `regardless_of` names variables that change no step, such as the
    number of steps; `nothing_at_zero` those that do the same at 0 as when they are not set.
    """
    groups: dict[tuple[object, ...], list[ArmRuns]] = {}
    for arm in arms_of(runs):
        if arm.measured:
            groups.setdefault(_work(arm, regardless_of, nothing_at_zero), []).append(arm)
    found = [group for group in groups.values() if len({arm.spec.experiment for arm in group}) > 1]
    return tuple(SameWork(tuple(_same_arm(arm) for arm in group)) for group in found)


def _same_arm(arm: ArmRuns) -> SameArm:
    step = estimate([one.median for one in arm.measured], arm.run_cv)
    return SameArm(arm.spec.experiment, tuple(run.spec.name for run in arm.runs), step)


def _work(arm: ArmRuns, regardless_of: Collection[str], nothing_at_zero: Collection[str]) -> tuple[object, ...]:
    spec, seen = arm.spec, arm.measured[0].work
    return (
        spec.key(CONFIGURATION),
        spec.turns is not None,
        _environment(spec.env, regardless_of, nothing_at_zero),
        (seen.samples, seen.parameters, seen.shapes_digest, seen.precision, seen.optimizers, seen.optimizer_steps),
    )


def _environment(
    env: Mapping[str, str], regardless_of: Collection[str], nothing_at_zero: Collection[str]
) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, value)
        for name, value in sorted(env.items())
        if name not in regardless_of and not (name in nothing_at_zero and _is_zero(value))
    )


def _is_zero(value: str) -> bool:
    try:
        return float(value) == 0
    except ValueError:
        return False


def _log_error(step: Estimate) -> float:
    """The standard error of the logarithm, from the step's own interval."""
    return log(step.high / step.low) / (2 * normal_quantile(step.level))
