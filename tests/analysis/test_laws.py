"""Amdahl's law gives its own fraction back, ignores what is no scaling, and knows what a delay does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.laws import RankSpeedup, amdahl_speedup, delayed_fraction, delayed_speedup, fit_amdahl
from scalewise.analysis.propagate import exact
from scalewise.analysis.scaling import serial_fraction

fractions = st.floats(0.0, 1.0)
times = st.floats(1e-4, 10.0)


def curve(fraction, ranks=(1, 2, 4, 8), spread=0.02):
    found = []
    for count in ranks:
        value = amdahl_speedup(fraction, count)
        found.append(RankSpeedup(count, Estimate(value, value * (1 - spread), value * (1 + spread), 30, 1, "", 0.95)))
    return found


@given(fractions)
def test_a_curve_gives_its_own_fraction_back(fraction):
    fit = fit_amdahl(curve(fraction))
    assert fit.serial_fraction.value == pytest.approx(fraction, abs=1e-9)
    assert fit.serial_fraction.low <= fraction <= fit.serial_fraction.high
    assert fit.lawful
    assert fit.relative_residuals == pytest.approx([0, 0, 0], abs=1e-9)


@given(fractions, st.integers(2, 1024))
def test_karp_and_flatt_read_the_fraction_of_an_amdahl_curve_at_every_count(fraction, ranks):
    assert serial_fraction(exact(amdahl_speedup(fraction, ranks)), ranks).value == pytest.approx(fraction, abs=1e-6)


def test_one_rank_alone_is_no_scaling():
    assert fit_amdahl(curve(0.3, ranks=(1,))) is None
    assert fit_amdahl([]) is None


def test_slower_with_more_ranks_is_outside_the_law():
    fit = fit_amdahl([RankSpeedup(2, Estimate(0.6, 0.58, 0.62, 30, 1, "", 0.95))])
    assert fit.serial_fraction.low > 1
    assert not fit.lawful


def test_points_that_scatter_beyond_their_intervals_widen_the_fraction():
    steady = fit_amdahl(curve(0.2))
    torn = fit_amdahl([curve(0.05)[1], curve(0.4)[3]])
    assert torn.serial_fraction.half_width > 5 * steady.serial_fraction.half_width


@given(fractions, times, times, st.integers(2, 64))
def test_a_delay_is_amdahl_with_the_delay_in_the_serial_part(fraction, one_rank, delay, ranks):
    many = one_rank * (fraction + (1 - fraction) / ranks)
    direct = delayed_speedup(exact(one_rank), exact(many), exact(delay)).value
    grown = delayed_fraction(exact(fraction), exact(one_rank), exact(delay)).value
    assert direct == pytest.approx(amdahl_speedup(grown, ranks))
    assert 1 - 1e-9 <= direct <= amdahl_speedup(fraction, ranks) + 1e-9


def test_a_delay_draws_a_slowdown_towards_one():
    assert 0.5 < delayed_speedup(exact(0.004), exact(0.008), exact(0.01)).value < 1
