"""A straight line through points that have errors of their own: time per layer, time per micro-batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from scalewise.analysis.estimate import CONFIDENCE, Estimate, normal_quantile

TINY = 1e-6  # of a value: points without an error still need a weight


@dataclass(frozen=True)
class Line:
    """The rise per unit of x with its 95 % interval, and where the line begins."""

    rise: Estimate
    at_zero: float

    def at(self, x: float) -> float:
        """The line's value."""
        return self.at_zero + self.rise.value * x


def line_through(points: Sequence[tuple[float, Estimate]]) -> Line | None:
    """Weighted least squares; None for fewer than two different x.

    The interval is widened where the points lie further off the line than their own errors explain.
    """
    if len({x for x, _ in points}) < 2:
        return None
    weights = [1 / _error(y) ** 2 for _, y in points]
    total = sum(weights)
    middle_x = sum(weight * x for weight, (x, _) in zip(weights, points, strict=True)) / total
    middle_y = sum(weight * y.value for weight, (_, y) in zip(weights, points, strict=True)) / total
    known = [(weight, x - middle_x, y.value - middle_y) for weight, (x, y) in zip(weights, points, strict=True)]
    spread = sum(weight * x * x for weight, x, _ in known)
    rise = sum(weight * x * y for weight, x, y in known) / spread
    off = sum(weight * (y - rise * x) ** 2 for weight, x, y in known)
    wider = max(1.0, off / max(len(points) - 2, 1))
    reach = normal_quantile(CONFIDENCE) * sqrt(wider / spread)
    steps, runs = sum(y.steps for _, y in points), sum(y.runs for _, y in points)
    method = f"weighted line through {len(points)} points"
    return Line(Estimate(rise, rise - reach, rise + reach, steps, runs, method), middle_y - rise * middle_x)


def _error(found: Estimate) -> float:
    half = (found.high - found.low) / 2 / normal_quantile(CONFIDENCE)
    return max(half, TINY * abs(found.value), 1e-12)
