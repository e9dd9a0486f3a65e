"""Computes how certain the order of two predictions is, from their intervals."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, log
from statistics import NormalDist

from scalewise.analysis.estimate import Estimate, normal_quantile
from scalewise.predict.predicted_scaling import Figures, ScalingRow, ScalingTable, figures_against_base


@dataclass(frozen=True)
class Order:
    """Two numbers of ranks, the one with more throughput first, and the probability that it is first."""

    first: int
    second: int
    ratio: float  # of the throughputs, or of the steps where samples are not known
    certainty: float  # from 0.5 on
    by_step: bool = False  # compared by steps, as samples are not known


def certainty(one: Estimate, other: Estimate) -> float:
    """The probability that the first number is the larger one, if the errors of both are independent.

    Two predictions of a script err alike in part, so that their order is surer than this.
    """
    spread = hypot(_spread(one), _spread(other))
    apart = log(one.value / other.value) if one.value > 0 and other.value > 0 else 0.0
    if spread == 0.0:
        return 0.5 if apart == 0.0 else float(apart > 0)
    return NormalDist().cdf(apart / spread)


def orders(table: ScalingTable) -> tuple[Order, ...]:
    """The order of every number of ranks and the next; measured figures count before predicted ones.

    It is empty if samples are in doubt, because then throughput is.
    """
    return () if table.doubt else tuple(_orders(table))


def _orders(table: ScalingTable) -> Iterator[Order]:
    base = table.base
    alone = (1, figures_against_base(base.step, base.samples, 1, base, table.kind))
    told = [alone, *((row.ranks, _figures(row)) for row in table.further)]
    for (few, before), (many, after) in pairwise(told):
        by_step = before.throughput is None or after.throughput is None
        one, other = (before.throughput, after.throughput)
        if one is None or other is None:
            one, other = before.step, after.step
        larger = certainty(other, one)
        many_first = (larger >= 0.5) != by_step
        first, second = (many, few) if many_first else (few, many)
        ratio = max(other.value / one.value, one.value / other.value) if min(one.value, other.value) > 0 else 1.0
        yield Order(first, second, ratio, max(larger, 1 - larger), by_step)


def _figures(row: ScalingRow) -> Figures:
    return row.measured or row.predicted


def _spread(told: Estimate) -> float:
    """The standard deviation of the logarithm of a number."""
    if told.exact or told.low <= 0:
        return 0.0
    return log(told.high / told.low) / (2 * normal_quantile(told.level))
