"""Tests of differences between arms."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.analysis.estimate import RunMedian
from scalewise.analysis.ratio import Side, log_difference, ratio, seconds_difference


def side(values, *, repeats=None, started=None, folder="f", run_cv=0.028):
    medians = tuple(RunMedian(value, value * 0.99, value * 1.01, 50) for value in values)
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
    assert "assumed (2.8 %)" in found.method()


def test_a_difference_in_seconds_has_an_interval_in_seconds():
    found = seconds_difference(side([0.010] * 6), side([0.012] * 6))
    assert found.middle == pytest.approx(0.002)
    few = seconds_difference(side([0.010]), side([0.012]))
    assert 0.0009 < few.reach() < 0.002
