"""A line through points with errors finds what was put in, and is unsure where the points are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.line import line_through


def point(x: float, y: float, reach: float = 0.0) -> tuple[float, Estimate]:
    return x, Estimate(y, y - reach, y + reach, 30, 1, "")


@given(st.floats(-5, 5), st.floats(-5, 5))
def test_points_on_a_line_give_that_line(rise, start):
    found = line_through([point(x, start + rise * x, 0.1) for x in (6, 12, 24)])
    assert found is not None
    assert found.rise.value == pytest.approx(rise, abs=1e-9)
    assert found.at(0) == pytest.approx(start, abs=1e-9)


def test_wider_points_make_a_wider_slope():
    sure, unsure = (line_through([point(1, 1, reach), point(2, 2, reach)]) for reach in (0.01, 1.0))
    assert sure is not None and unsure is not None
    assert sure.rise.low > 0 > unsure.rise.low


def test_points_off_the_line_widen_the_interval():
    found = line_through([point(1, 1, 0.01), point(2, 5, 0.01), point(3, 3, 0.01)])
    assert found is not None and found.rise.low < 0 < found.rise.high


def test_one_x_has_no_slope():
    assert line_through([point(1, 1), point(1, 2)]) is None
    assert line_through([]) is None
