"""`python -m bench unseen`: what is learnt from points, and what its plots show."""

from math import exp, log

import pytest
from bench.unseen_judge import Point
from bench.unseen_learn import NO_SHIFT, SHARES, _cells
from bench.unseen_plots import coverage_by_claim, errors_by_ranks

from factories import make_estimate
from scalewise.launch.page_cost import page_seconds


def point(ranks: int, off: float, communication: float = 0.1, half: float = 0.2) -> Point:
    """A step that was foreseen too long by that logarithm, with an interval of half that width."""
    told = make_estimate(exp(off), exp(off - half), exp(off + half), positive=True)
    return Point(
        "model", ranks, told, make_estimate(1.0, 0.99, 1.01, positive=True), None, None, exp(off), communication
    )


def test_of_one_sessions_mean_only_a_part_becomes_a_shift():
    once = _cells([[point(2, 0.2), point(2, 0.2)]])
    often = _cells([[point(2, 0.2)]] * 8)
    (first, second) = ([cell["shift"] for cell in cells] for cells in (once, often))
    assert first == pytest.approx([0.2 / (1 + NO_SHIFT)] * len(SHARES), abs=1e-4)
    assert second == pytest.approx([8 * 0.2 / (8 + NO_SHIFT)] * len(SHARES), abs=1e-4)


def test_each_cell_leans_on_all_points_as_far_as_it_has_few():
    points = [point(2, sign * 0.1) for sign in (1, -1) * 10] + [point(8, sign * 0.4, 0.6) for sign in (1, -1)]
    cells = {(cell["ranks"], cell["communication"]): cell for cell in _cells([points])}
    assert cells[2, 0.0]["points"] == 20 and cells[8, 0.25]["points"] == 2
    assert 0.1 < cells[2, 0.0]["spread"] < 0.12
    assert 0.2 < cells[8, 0.25]["spread"] < 0.4
    assert cells[2, 0.25]["points"] == 0  # nothing of its own: as all points together


def test_the_plots_show_errors_by_ranks_and_how_many_lie_inside():
    points = [point(2, log(1.1)), point(2, log(1.3)), point(8, log(0.8))]
    ways = {"nothing checked": [(one.ranks, one.predicted, one.measured) for one in points]}
    median, largest = errors_by_ranks(ways).plot.series
    assert median.x == (2.0, 8.0) and median.y == pytest.approx((20.0, 20.0))
    assert largest.y == pytest.approx((30.0, 20.0))
    seen, ideal = coverage_by_claim(ways).plot.series
    assert ideal.style == "ideal"
    assert list(seen.y) == sorted(seen.y) and seen.y[-1] == 100.0


def test_a_page_has_a_price():
    assert 0 <= page_seconds() < 1e-3
