"""Fits a straight line through positive measurements by relative residuals, so that all sizes count alike.

Outliers get little weight (Huber). The intervals come from the residuals; if there are too few points to estimate their
spread, it is filled from the spread between runs that is assumed here (`analysis.estimate`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scalewise.analysis.estimate import CONFIDENCE, QUIET_RUN_CV, Estimate, Floats, normal_quantile, spread, t_quantile

ROUNDS = 50  # of reweighting; it converges in fewer than ten
HUBER = 1.345  # standard deviations from which a residual counts linearly: 95 % efficient on normal errors
NORMAL_MAD = 1.4826  # standard deviation over median absolute deviation of a normal distribution


@dataclass(frozen=True)
class Line:
    """A line y = intercept + slope x, with the relative residual (measured over line, minus 1) of every point."""

    intercept: Estimate
    slope: Estimate
    relative_residuals: tuple[float, ...]

    def at(self, x: float) -> float:
        """The value of the line at x."""
        return self.intercept.value + self.slope.value * x

    @property
    def typical_residual(self) -> float:
        """The median absolute relative residual."""
        return float(np.median(np.abs(self.relative_residuals)))


def fit_line(x: Sequence[float], y: Sequence[float], assumed_cv: float = QUIET_RUN_CV) -> Line | None:
    """The fitted line; None if fewer than two x differ, or if some y is not positive."""
    xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if len(np.unique(xs)) < 2 or not np.all(np.isfinite(ys)) or np.any(ys <= 0):
        return None
    scale = float(np.abs(xs).max())  # bytes go up to 10^8: without scaling, their squares would cost digits
    design = np.column_stack((1 / ys, xs / scale / ys))
    target = np.ones_like(ys)
    weights = _weights(design, target)
    root = np.sqrt(weights)[:, None]
    solution = np.linalg.lstsq(design * root, target * root[:, 0], rcond=None)[0]
    residuals = design @ solution - target
    reach = _reach(design, weights, residuals, assumed_cv)
    count = len(ys)
    method = f"line through {count} points, relative residuals"

    def found(index: int, by: float) -> Estimate:
        value, half = float(solution[index]) / by, float(reach[index]) / by
        return Estimate(value, value - half, value + half, count, 0, method, CONFIDENCE)

    line = ys / (solution[0] + solution[1] * xs / scale) - 1
    return Line(found(0, 1.0), found(1, scale), tuple(float(one) for one in line))


def spread_of(times: Sequence[Estimate]) -> float:
    """The relative standard error to assume for a line through these: that of the widest, or a quiet machine's."""
    return max([QUIET_RUN_CV, *(one.half_width / normal_quantile(one.level) for one in times)])


def _weights(design: Floats, target: Floats) -> Floats:
    weights = np.ones_like(target)
    for _ in range(ROUNDS):
        root = np.sqrt(weights)
        solution = np.linalg.lstsq(design * root[:, None], target * root, rcond=None)[0]
        sizes = np.abs(design @ solution - target)
        limit = HUBER * max(NORMAL_MAD * float(np.median(sizes)), 1e-12)
        fresh: Floats = np.minimum(1.0, limit / np.maximum(sizes, 1e-300))
        if np.allclose(fresh, weights, atol=1e-6):
            break
        weights = fresh
    return weights


def _reach(design: Floats, weights: Floats, residuals: Floats, assumed_cv: float) -> Floats:
    """Half the 95 % interval of both coefficients."""
    squares = float(np.sum(weights * residuals**2))
    variance, degrees = spread(squares, len(residuals) - 2, assumed_cv**2)
    covariance = variance * np.linalg.pinv(design.T @ (weights[:, None] * design))
    reach: Floats = t_quantile(CONFIDENCE, degrees) * np.sqrt(np.diag(covariance))
    return reach
