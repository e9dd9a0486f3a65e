"""Intervals go through formulas: exact stays exact, independent shifts add in squares, a pole opens the interval."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.propagate import exact, propagate


def between(value, low, high):
    return Estimate(value, low, high, 30, 1, "made up", 0.95)


def test_independent_shifts_add_in_squares():
    found = propagate(lambda a, b: a + b, between(1, 0.7, 1.3), between(2, 1.6, 2.4))
    assert (found.value, found.low, found.high) == pytest.approx((3, 2.5, 3.5))


@given(st.floats(-1e6, 1e6))
def test_what_is_exact_stays_exact(value):
    found = propagate(lambda a: 2 * a, exact(value))
    assert found.low == found.value == found.high == 2 * value


def test_a_pole_inside_the_interval_opens_it():
    found = propagate(lambda a: 1 / a, between(1, 0, 2))
    assert (found.low, found.high) == (-inf, inf)
