"""Tests of finding the end of warm-up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import noisy
from scalewise.analysis.warmup import WarmUp, find_warmup


@given(st.lists(st.floats(1e-6, 10), max_size=100).map(np.array))
def test_at_least_one_step_and_at_most_a_third_are_left_out(values):
    found = find_warmup(values)
    assert min(1, max(len(values) - 1, 0)) <= found.steps <= max(len(values) // 3, 1)


@pytest.mark.parametrize("slow", [1, 2, 5, 12])
def test_slow_first_steps_are_left_out(slow):
    values = noisy(60, 0.005, 3)
    values[:slow] *= np.linspace(4, 1.5, slow)
    assert find_warmup(values) == WarmUp(slow, True)


def test_fast_first_steps_are_left_out_too():
    values = noisy(90, 0.005, 4)
    values[:10] *= 0.6
    found = find_warmup(values)
    assert found.over and 8 <= found.steps <= 10


def test_settled_steps_lose_only_the_first():
    dropped = [find_warmup(noisy(100, 0.005, seed)).steps for seed in range(100)]
    assert np.mean(np.array(dropped) <= 3) > 0.9


def test_a_run_that_is_still_falling_after_a_third_has_not_warmed_up():
    values = noisy(60, 0.005, 5)
    values[:30] *= np.linspace(9, 2, 30)
    assert find_warmup(values) == WarmUp(20, False)


def test_a_change_after_half_of_the_first_third_is_found():
    values = np.concatenate([np.full(15, 0.010), np.full(45, 0.005)])
    assert find_warmup(values) == WarmUp(15, True)


def test_a_handful_of_steps_loses_the_first():
    assert find_warmup(np.array([3.0, 1.0, 1.0])) == WarmUp(1, True)
    assert find_warmup(np.array([3.0])) == WarmUp(0, False)
    assert find_warmup(np.array([])) == WarmUp(0, False)
