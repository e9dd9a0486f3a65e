"""Laws of medians and their intervals, and a simulation of how often the interval holds."""

import math
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_estimate, noisy
from scalewise.analysis.estimate import (
    Estimate,
    RunMedian,
    common_level,
    estimate,
    exact,
    level_text,
    normal_quantile,
    percent_phrase,
    propagate,
    run_median,
    t_quantile,
)

TIMES = st.lists(st.floats(1e-6, 10.0), min_size=1, max_size=80).map(np.array)


@given(TIMES)
def test_the_median_lies_in_its_interval_and_the_interval_in_the_data(values):
    found = run_median(values)
    assert values.min() <= found.low <= found.seconds <= found.high <= values.max()
    assert found.steps == len(values)


@given(TIMES, st.floats(0.1, 100))
def test_a_change_of_unit_changes_nothing_but_the_unit(values, factor):
    one, two = run_median(values), run_median(values * factor)
    assert (two.seconds, two.low, two.high) == pytest.approx(
        (one.seconds * factor, one.low * factor, one.high * factor)
    )


@given(st.floats(1e-6, 10), st.integers(1, 50))
def test_equal_steps_have_an_interval_without_width(value, count):
    found = run_median(np.full(count, value))
    assert (found.low, found.high) == (value, value)


def test_no_step_has_no_median():
    with pytest.raises(ValueError, match="at least one step"):
        run_median(np.array([]))


def test_steps_that_resemble_their_neighbours_widen_the_interval():
    alone = run_median(noisy(400, 1.0, 1, correlation=0.0))
    alike = run_median(noisy(400, 1.0, 1, correlation=0.9))
    assert alike.high - alike.low > 2 * (alone.high - alone.low)


@pytest.mark.parametrize(("count", "correlation"), [(30, 0.5), (100, 0.0), (100, 0.5), (100, 0.8), (400, 0.5)])
def test_the_interval_of_one_run_covers_the_true_median(count, correlation):
    runs = [run_median(noisy(count, 1.0, seed, correlation=correlation)) for seed in range(200)]
    covered = np.mean([run.low <= 1.0 <= run.high for run in runs])
    assert covered >= 0.88


@pytest.mark.parametrize("repeats", [2, 3, 5, 8])
def test_the_interval_of_repeated_runs_covers_the_true_median(repeats):
    covered = 0
    for trial in range(200):
        seeds = range(trial * repeats, (trial + 1) * repeats)
        found = estimate([run_median(noisy(60, 1.0, seed, run_cv=0.028)) for seed in seeds])
        covered += found.low <= 1.0 <= found.high
    assert covered >= 0.92 * 200


def test_one_run_is_told_from_its_steps_and_several_from_their_medians():
    runs = [RunMedian(value, value * 0.99, value * 1.01, 40, 0.95) for value in (1.0, 1.1, 1.0, 1.1, 1.05)]
    assert estimate(runs[:1]).method == "steps of one run"
    assert estimate(runs[:2]).method == "medians of 2 runs, spread between runs partly assumed (2.8 %)"
    assert estimate(runs).method == "medians of 5 runs"
    assert estimate(runs).steps == 200
    assert estimate(runs).value == pytest.approx((1.0 * 1.1 * 1.0 * 1.1 * 1.05) ** 0.2)


def test_few_runs_that_agree_by_chance_do_not_make_the_interval_narrow():
    same = [RunMedian(1.0, 1.0, 1.0, 40, 0.95)] * 2
    assert estimate(same).half_width > 0.04
    assert estimate(same, run_cv=0.088).half_width > 0.12
    assert estimate(same * 3).half_width == 0.0


@pytest.mark.parametrize(
    ("confidence", "degrees", "table"),
    [(0.95, 4, 2.776), (0.98, 4, 3.747), (0.99, 8, 3.355), (0.95, 9, 2.262), (0.95, 30, 2.042), (0.98, 1000, 2.330)],
)
def test_students_quantiles_agree_with_the_table(confidence, degrees, table):
    assert t_quantile(confidence, degrees) == pytest.approx(table, rel=0.003)


def test_students_quantiles_are_refused_where_the_expansion_fails():
    with pytest.raises(ValueError, match="degrees of freedom"):
        t_quantile(0.95, 1)


# ---- levels


def test_an_estimate_says_its_level_and_two_levels_are_never_combined():
    at_95, at_90 = make_estimate(2.0, 1.8, 2.2), make_estimate(2.0, 1.9, 2.1, 0.90)
    assert level_text(at_95.level) == "95 %" and level_text(at_90.level) == "90 %" and level_text(0.995) == "99.5 %"
    assert common_level(at_95, exact(3.0, 0.90)) == 0.95, "a number without width holds at every level"
    for combine in (lambda: common_level(at_95, at_90), lambda: propagate(lambda a, b: a - b, at_95, at_90)):
        with pytest.raises(ValueError, match="90 % and 95 % do not combine"):
            combine()


POSITIVE = st.tuples(st.floats(1e-6, 1e6), st.floats(1.0, 3.0), st.floats(1.0, 3.0))
LEVELS = st.sampled_from([0.80, 0.90, 0.95, 0.98, 0.99])


@given(POSITIVE, LEVELS, LEVELS, st.booleans())
def test_an_interval_restated_there_and_back_is_the_same_and_a_higher_level_is_wider(one, a, b, positive):
    value, down, up = one
    found = make_estimate(value, value / down, value * up, a, positive=positive)
    there = found.at(b)
    assert there.level == b and there.value == value and there.low <= value <= there.high
    back = there.at(a)
    assert (back.low, back.high) == (pytest.approx(found.low, rel=1e-6), pytest.approx(found.high, rel=1e-6))
    if b > a:
        assert there.low <= found.low * (1 + 1e-12) and there.high >= found.high * (1 - 1e-12)
    if positive:
        assert there.low > 0


def test_a_normal_interval_restated_at_90_percent_covers_90_percent():
    random = np.random.default_rng(5)
    logs = random.normal(size=4000) * 0.3
    for positive in (True, False):
        held = 0
        for shift in logs:
            value = math.exp(shift) if positive else shift
            if positive:
                ends = math.exp(shift - 1.96 * 0.3), math.exp(shift + 1.96 * 0.3)
            else:
                ends = shift - 1.96 * 0.3, shift + 1.96 * 0.3
            found = make_estimate(value, *ends, positive=positive).at(0.90)
            held += found.low <= (1.0 if positive else 0.0) <= found.high
        assert held / len(logs) == pytest.approx(0.90, abs=0.015)


def test_a_difference_that_excludes_zero_narrowly_holds_it_at_a_higher_level():
    """On the logarithm no level would ever reach it."""
    found = make_estimate(1.0, 0.05, 1.95)
    assert found.low > 0 > found.at(0.98).low


@given(POSITIVE, st.floats(0.01, 100))
def test_formulas_of_one_number_keep_the_level_and_the_order_of_the_ends(one, factor):
    value, down, up = one
    found = make_estimate(value, value / down, value * up, 0.90, positive=True)
    inverse = found.through(lambda seconds: factor / seconds, positive=True)
    assert inverse.low <= inverse.value <= inverse.high and inverse.level == 0.90 and inverse.positive
    assert found.times(-factor).high == pytest.approx(-factor * found.low) and not found.times(-factor).positive


@pytest.mark.parametrize("level", [0.90, 0.95, 0.98])
def test_medians_of_runs_are_estimated_at_the_level_that_is_asked_for(level):
    runs = [RunMedian(value, value * 0.99, value * 1.01, 40, 0.95) for value in (1.0, 1.1, 1.0, 1.1, 1.05)]
    found, usual = estimate(runs, level=level), estimate(runs)
    assert found.level == level and (found.high > usual.high) == (level > 0.95)
    single = estimate(runs[:1], level=level)
    assert single.level == level and single.half_width == pytest.approx(0.01 * usual_ratio(level), rel=0.02)


def usual_ratio(level):
    return normal_quantile(level) / normal_quantile(0.95)


def test_a_share_is_said_in_percent_with_its_interval_unless_it_is_exact():
    assert percent_phrase(Estimate(0.85, 0.8, 0.9, 30, 1, "made up", 0.95)) == "85.0 % [80.0, 90.0]"
    assert percent_phrase(Estimate(0.5, 0.5, 0.5, 30, 1, "made up", 0.95)) == "50.0 %"


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
