"""Latency and rate of a link come back from its points, and are refused where the points do not show them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.analysis.link_fit import LinkFit, NoLinkFit, fit_link

SIZES = [4.0 * 8**power for power in range(9)]


def points(alpha, rate, sizes=SIZES, repeats=3):
    return [(size, alpha + size / rate) for size in sizes for _ in range(repeats)]


@given(st.floats(1e-5, 1e-2), st.floats(1e8, 1e11))
def test_a_link_gives_its_own_latency_and_rate_back(alpha, rate):
    fit = fit_link(points(alpha, rate), 2)
    if isinstance(fit, NoLinkFit):  # latency hides the rate of the fastest link with the slowest start
        assert 64 * 2**20 / rate < 0.02 * alpha
        return
    assert fit.alpha_seconds.value == pytest.approx(alpha, rel=1e-3)
    assert fit.bytes_per_second.value == pytest.approx(rate, rel=1e-2)
    assert fit.predicted(2, 1e6).value == pytest.approx(2 * alpha + 1e6 / rate, rel=1e-2)


def test_repeats_that_were_held_up_do_not_count():
    held_up = [(size, seconds + 4e-3) for size, seconds in points(1e-4, 1e9)]
    fit = fit_link([*points(1e-4, 1e9, repeats=1), *held_up], 2)
    assert isinstance(fit, LinkFit)
    assert fit.alpha_seconds.value == pytest.approx(1e-4, rel=1e-3)


def test_too_few_sizes_are_refused_with_their_number():
    assert "2 message sizes from 4 B to 32 B" in fit_link(points(1e-4, 1e9, SIZES[:2]), 2).reason
    assert "0 message sizes" in fit_link([], 4).reason


def test_points_that_no_line_describes_are_refused_with_the_miss():
    wild = [(size, 1e-3 if index % 2 else 1.0) for index, size in enumerate(SIZES)]
    found = fit_link(wild, 2)
    assert isinstance(found, NoLinkFit)
    assert "%" in found.reason or "not positive" in found.reason


def test_a_link_that_is_faster_for_more_bytes_is_refused():
    found = fit_link([(size, 1.0 / (1 + size)) for size in SIZES], 2)
    assert isinstance(found, NoLinkFit)
