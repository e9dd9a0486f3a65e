"""Evaluates a formula of estimates: its value, with an interval from the estimates' intervals as independent ones."""

from collections.abc import Callable
from math import isfinite, sqrt

from scalewise.analysis.estimate import CONFIDENCE, Estimate, common_level


def exact(value: float, level: float = CONFIDENCE) -> Estimate:
    """An estimate without uncertainty, such as a batch that was asked for."""
    return Estimate(value, value, value, 0, 0, "exact", level)


def propagate(formula: Callable[..., float], *inputs: Estimate, method: str = "") -> Estimate:
    """The formula at the middles; each input is moved to both ends of its interval, and the shifts add in squares.

    If the formula has no value after a shift (a division by zero, say), the interval is infinite on both sides. The
    intervals of all inputs have one level, and the result has it too.
    """
    level = common_level(*inputs)
    middles = [one.value for one in inputs]
    centre = formula(*middles)
    up = down = 0.0
    for index, one in enumerate(inputs):
        for end in (one.low, one.high):
            shift = _shift(formula, [*middles[:index], end, *middles[index + 1 :]], centre)
            up, down = (up + max(shift[0], 0.0) ** 2, down + max(shift[1], 0.0) ** 2)
    steps, runs = sum(one.steps for one in inputs), sum(one.runs for one in inputs)
    said = method or "from the intervals of what it is computed from"
    return Estimate(centre, centre - sqrt(down), centre + sqrt(up), steps, runs, said, level)


def _shift(formula: Callable[..., float], values: list[float], centre: float) -> tuple[float, float]:
    """The change of the formula upwards and downwards for these values."""
    try:
        moved = formula(*values)
    except (ZeroDivisionError, ValueError, OverflowError):
        return float("inf"), float("inf")
    if not isfinite(moved):
        return float("inf"), float("inf")
    return moved - centre, centre - moved
