"""Tests of how long a rank waits for its data."""

import pytest
from case_factory import Sheet, make_case
from data_sheets import MILLISECOND
from hypothesis import given
from hypothesis import strategies as st

from scalewise.doctor.data_wait import WARM_UP, waiting
from scalewise.records.notes import BatchNote, StepNote


def rank(waits, rest):
    sheet = Sheet()
    at = 0
    for wait in waits:
        at += wait
        sheet.add(BatchNote, at_ns=at, wait_ns=wait)
        at += rest
        sheet.add(StepNote, at_ns=at)
    return make_case(sheet).first


@given(st.integers(0, 50), st.integers(1, 50), st.integers(1, 3))
def test_equal_steps_have_the_share_of_each(wait, rest, block):
    found = waiting(rank([wait * MILLISECOND] * 14, rest * MILLISECOND), frozenset({0}), block, 1e6, 0.25)
    assert found.wait_ns == wait * MILLISECOND
    assert found.iteration_ns == (wait + rest) * MILLISECOND
    assert found.share == pytest.approx(wait / (wait + rest))
    assert found.windows == (14 - WARM_UP) // block * block
    assert found.blocks_above in (0.0, 1.0)


def test_the_loader_that_is_waited_for_most_is_named():
    sheet = Sheet()
    for step in range(8):
        sheet.add(BatchNote, at_ns=100 * step + 10, loader=0, wait_ns=10)
        sheet.add(BatchNote, at_ns=100 * step + 60, loader=1, wait_ns=50)
        sheet.add(StepNote, at_ns=100 * step + 90)
    found = waiting(make_case(sheet).first, frozenset({0, 1}), 1, 1e6, 0.25)
    assert found.loader == 1 and found.wait_ns == 60


def test_too_few_windows_for_one_block_say_nothing():
    assert waiting(rank([1] * 4, 1), frozenset({0}), 5, 1e6, 0.25) is None
