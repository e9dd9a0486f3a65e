"""Tests of differences between arms."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_estimate
from scalewise.analysis.estimate import RunMedian, estimate
from scalewise.analysis.ratio import (
    Side,
    equivalent,
    log_difference,
    ratio,
    ratio_of,
    seconds_between,
    seconds_difference,
)


def side(values, *, repeats=None, started=None, folder="f", run_cv=0.028):
    medians = tuple(RunMedian(value, value * 0.99, value * 1.01, 50, 0.95) for value in values)
    repeats = tuple(repeats if repeats is not None else range(len(values)))
    started = tuple(started if started is not None else (10.0 * repeat for repeat in repeats))
    return Side(medians, repeats, started, folder, run_cv)


SIDES = st.lists(st.floats(1e-4, 10), min_size=1, max_size=8)


@given(SIDES, SIDES)
def test_the_ratio_turned_around_is_its_inverse(a, b):
    one, two = ratio(side(a), side(b)), ratio(side(b), side(a))
    assert one.value == pytest.approx(1 / two.value)
    assert one.low == pytest.approx(1 / two.high)
    assert one.low <= one.value <= one.high


def test_interleaved_repeats_are_paired_and_what_they_share_cancels():
    drift = np.array([1.0, 1.2, 1.5, 1.3, 1.1, 1.4])
    a, b = side(drift), side(drift * 1.02)
    found = log_difference(a, b)
    assert found.paired and found.assumed_run_cv is None and not found.apart
    assert found.middle == pytest.approx(math.log(1.02))
    assert found.reach() < 1e-9
    apart = log_difference(a, replace(b, folder="other", started=tuple(t + 1000 for t in b.started)))
    assert not apart.paired and apart.apart and apart.reach() > 0.1


def test_pairs_go_by_repeat_and_not_by_order():
    a = side([1.0, 2.0, 3.0, 4.0, 5.0])
    b = side([5.0, 4.0, 3.0, 2.0, 1.0], repeats=[4, 3, 2, 1, 0])
    assert log_difference(a, b).error == pytest.approx(0.0)


def test_repeats_taken_one_arm_after_the_other_are_not_paired_and_a_drift_is_allowed_for():
    a = side([1.0] * 6, started=range(6))
    b = side([1.0] * 6, started=range(100, 106))
    found = log_difference(a, b)
    assert not found.paired and found.apart
    assert found.error == pytest.approx(0.028)


def test_arms_with_different_repeats_of_one_stretch_of_time_are_not_paired_but_not_apart():
    found = log_difference(side([1.0] * 6), side([1.0] * 5))
    assert not found.paired and not found.apart


def test_one_run_of_each_rests_on_the_assumed_spread():
    found = log_difference(side([1.0]), side([1.0]))
    assert found.assumed_run_cv == 0.028
    assert 0.10 < found.reach() < 0.13
    assert log_difference(side([1.0]), side([1.0], run_cv=0.088)).reach() > 0.3
    assert "assumed (2.8 %)" in found.method_text()


def test_a_difference_in_seconds_has_an_interval_in_seconds():
    found = seconds_difference(side([0.010] * 6), side([0.012] * 6))
    assert found.middle == pytest.approx(0.002)
    few = seconds_difference(side([0.010]), side([0.012]))
    assert 0.0009 < few.reach() < 0.002


# ---- two arms by the interval of their ratio

STEPS = st.tuples(st.floats(1e-4, 1e3), st.floats(1.0, 2.0), st.floats(1.0, 2.0)).map(
    lambda one: make_estimate(one[0], one[0] / one[1], one[0] * one[2], positive=True)
)


@given(STEPS, STEPS)
def test_the_ratio_of_two_estimates_turned_around_is_its_inverse(a, b):
    one, two = ratio_of(a, b), ratio_of(b, a)
    assert one.value == pytest.approx(1 / two.value)
    assert (one.low, one.high) == (pytest.approx(1 / two.high), pytest.approx(1 / two.low))
    assert one.low <= one.value <= one.high and one.level == 0.95 and one.positive


@given(STEPS)
def test_over_an_exact_number_a_ratio_is_as_sure_as_what_stands_above(a):
    found = ratio_of(a, make_estimate(2.0, 2.0, 2.0))
    assert (found.low, found.high) == (pytest.approx(a.low / 2), pytest.approx(a.high / 2))


def test_a_ratio_of_two_levels_is_refused_and_one_that_reaches_zero_has_an_open_end():
    with pytest.raises(ValueError, match="restate them"):
        ratio_of(make_estimate(1.0, 0.9, 1.1), make_estimate(1.0, 0.9, 1.1, 0.90))
    below = ratio_of(make_estimate(1.0, 0.9, 1.1), make_estimate(0.5, 0.0, 1.0))
    assert below.value == 2.0 and below.high == math.inf


def test_intervals_that_overlap_may_belong_to_different_steps():
    a, b = make_estimate(1.0, 0.95, 1.05, positive=True), make_estimate(1.09, 1.04, 1.14, positive=True)
    assert a.high > b.low
    assert ratio_of(a, b).high < 1


STARTED = tuple(float(one) for one in range(6))  # both in one stretch of time


@pytest.mark.parametrize("level", [0.90, 0.95, 0.98])
def test_the_interval_of_a_ratio_holds_the_true_ratio_as_often_as_its_level_says(level):
    """Six fresh processes of each arm, whose medians differ by 5 %: by estimates, and by the runs, unpaired."""
    random = np.random.default_rng(11)
    held = {"estimates": 0, "runs": 0}
    trials = 1500
    for _ in range(trials):
        arms = [tuple(scale * np.exp(0.05 * random.normal(size=6))) for scale in (1.0, 1.3)]
        medians = [tuple(RunMedian(one, one * 0.999, one * 1.001, 50, 0.95) for one in arm) for arm in arms]
        sides = [Side(one, tuple(range(6)), STARTED, folder, 0.028) for one, folder in zip(medians, "ab", strict=True)]
        found = {
            "estimates": ratio_of(*(estimate(one, level=level) for one in medians)),
            "runs": ratio(*sides, level),
        }
        for name, one in found.items():
            assert one.level == level
            held[name] += one.low <= 1 / 1.3 <= one.high
    for count in held.values():
        assert level - 0.02 <= count / trials <= level + 0.035


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.97, 1.04, "equal within margin"),
        (1.02, 1.05, "equal within margin"),
        (0.85, 1.05, "cannot tell"),
        (0.95, 1.30, "cannot tell"),
        (1.05, 1.30, "different"),
        (0.50, 0.95, "different"),
    ],
)
def test_equal_means_inside_the_margin_and_cannot_tell_always_holds_one(low, high, word):
    assert equivalent(make_estimate(math.sqrt(low * high), low, high), 0.10) == word


@given(STEPS, STEPS, st.floats(0.01, 1.0))
def test_the_word_is_the_same_for_the_ratio_turned_around(a, b, margin):
    one, two = ratio_of(a, b), ratio_of(b, a)
    edges = [abs(end - edge) for end in (one.low, one.high) for edge in (1.0, 1 + margin, 1 / (1 + margin))]
    if min(edges) > 1e-9:  # where an end lies on an edge, rounding decides
        assert equivalent(one, margin) == equivalent(two, margin)
    if equivalent(one, margin) == "cannot tell":
        assert one.low <= 1 <= one.high


def test_a_margin_of_nothing_is_a_mistake():
    with pytest.raises(ValueError, match="above zero"):
        equivalent(make_estimate(1.0, 0.9, 1.1), 0.0)


@pytest.mark.parametrize("level", [0.90, 0.98])
def test_differences_and_ratios_of_runs_have_the_level_that_is_asked_for(level):
    a, b = side([1.0, 1.1] * 3, folder="a"), side([1.1, 1.2] * 3, folder="b")
    by_ratio, by_seconds = ratio(a, b, level), seconds_between(a, b, level)
    assert by_ratio.level == by_seconds.level == level
    assert by_seconds.value == pytest.approx(0.1) and not by_seconds.positive
    assert (by_ratio.high < ratio(a, b).high) == (level < 0.95)
