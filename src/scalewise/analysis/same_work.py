"""Finds a configuration that several experiments of a suite measured, and how far its steps differ.

Within an experiment arms are interleaved, and changes of the machine cancel in their ratio. Two experiments
are minutes apart, so their steps differ by what changed on the machine in between. An interval that is based on one
of them does not include that; the spread between them does.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, hypot, log, sqrt
from statistics import stdev

from scalewise.analysis.estimate import LEAST_DEGREES, Estimate, normal_quantile, t_quantile

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
