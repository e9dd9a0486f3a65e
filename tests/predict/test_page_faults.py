"""Memory that a process takes anew in every step is counted, a part of it is taken out, and both ends are expected."""

import dataclasses

import pytest

from factories import make_machine
from scalewise.predict.page_faults import MOST_SHARE, page_shares, pages_of_a_step
from scalewise.records.load import RankRecord
from scalewise.records.rows import MemoryRow


def record(*faults: tuple[int, int]) -> RankRecord:
    """A rank with so many faults at these steps."""
    rest = (0, 0, 0, None, None, None, None)
    return RankRecord(0, memory=tuple(MemoryRow(step, 1, count, *rest) for step, count in faults))


def test_the_usual_rate_after_the_first_steps_counts():
    assert pages_of_a_step(record((1, 0), (8, 90_000), (12, 98_000), (16, 106_000), (32, 106_100))) == 2000
    assert pages_of_a_step(record((8, 5))) == 0.0
    assert pages_of_a_step(record()) == 0.0


def test_the_share_of_computing_is_what_pages_cost_here():
    ranks = [record((8, 0), (16, 16_000)), record((8, 0), (16, 80))]
    assert page_shares(ranks, [0.02, 0.02], 2e-6) == pytest.approx([0.2, 0.001])
    assert page_shares(ranks, [0.02, 0.0], None) == pytest.approx([0.1, 0.0])
    assert page_shares(ranks[:1], [0.001], 1e-5) == [MOST_SHARE]


def test_machines_that_differ_in_nothing_but_that_price_are_equal():
    assert make_machine() == dataclasses.replace(make_machine(), page_seconds=1e-6)
