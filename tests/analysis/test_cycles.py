"""Tests of grouping optimizer steps into iterations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.analysis.cycles import iteration_starts


def groups(optimizers):
    starts, whole = iteration_starts(np.array(optimizers))
    return [optimizers[begin:end] for begin, end in zip(starts, [*starts[1:], whole], strict=True)]


def test_with_one_optimizer_every_step_is_an_iteration():
    assert groups([0, 0, 0]) == [[0], [0], [0]]


def test_a_gan_steps_both_in_turn():
    assert groups([0, 1] * 3) == [[0, 1]] * 3
    assert groups([1, 0] * 3) == [[1, 0]] * 3


def test_several_critic_steps_end_with_the_generator():
    assert groups([0, 0, 0, 1] * 5) == [[0, 0, 0, 1]] * 5


def test_a_cut_off_last_iteration_is_left_out():
    assert groups([0, 1, 0, 1, 0]) == [[0, 1], [0, 1]]


def test_an_irregular_first_iteration_does_not_hide_the_pattern():
    assert groups([0, 0, 0, 0, 0, 1] + [0, 0, 1] * 6)[1:] == [[0, 0, 1]] * 6


@pytest.mark.parametrize("optimizers", [[0] * 60 + [1] * 40, [0] * 40 + [1] * 60, [0] * 50 + [1] * 50])
def test_optimizers_used_one_after_the_other_make_no_pattern(optimizers):
    assert groups(optimizers) == [[index] for index in optimizers]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_iterations_are_whole_and_in_order(optimizers):
    found = groups(optimizers)
    flat = [index for group in found for index in group]
    assert all(found) and flat == optimizers[: len(flat)]
    assert 2 * len(flat) >= len(optimizers)
