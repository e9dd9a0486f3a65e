"""A line gives itself back, shrugs off an outlier, and is refused where there is none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.analysis.line_fit import fit_line

X = [1.0, 4.0, 64.0, 1e3, 1e5, 1e7]


@given(st.floats(1e-6, 1.0), st.floats(1e-10, 1e-3))
def test_a_line_gives_its_own_coefficients_back(intercept, slope):
    line = fit_line(X, [intercept + slope * x for x in X])
    assert line.intercept.value == pytest.approx(intercept, rel=1e-4)
    assert line.slope.value == pytest.approx(slope, rel=1e-4)
    assert max(map(abs, line.relative_residuals)) < 1e-4
    assert line.at(10.0) == pytest.approx(intercept + 10 * slope, rel=1e-4)


def test_one_odd_point_moves_the_line_little_and_shows_in_its_residual():
    y = [1.0 + 0.1 * x for x in range(1, 11)]
    y[4] *= 3
    line = fit_line(list(range(1, 11)), y)
    assert line.intercept.value == pytest.approx(1.0, rel=0.1)
    assert max(line.relative_residuals, key=abs) == pytest.approx(2.0, rel=0.1)
    assert line.typical_residual < 0.05


def test_the_interval_covers_the_truth_most_of_the_time():
    random = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        y = [(2e-4 + 1e-9 * x) * np.exp(0.1 * random.normal()) for x in X]
        found = fit_line(X, y).slope
        hits += found.low <= 1e-9 <= found.high
    assert hits >= 170


@pytest.mark.parametrize(("x", "y"), [([], []), ([1, 1], [1, 2]), ([1, 2], [1, 0]), ([1, 2], [1, float("nan")])])
def test_points_without_a_line_are_refused(x, y):
    assert fit_line(x, y) is None
