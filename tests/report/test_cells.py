"""Cells: the number behind the text, its interval, its mark, and holes that are named."""

import pytest

from factories import make_run, make_suite
from scalewise.analysis.estimate import Estimate
from scalewise.analysis.summary import summarise
from scalewise.report.cells import EMPTY, count_cell, empty_cell, estimate_cell, mark_of, number_cell, text_cell


def row_of(**changes):
    return summarise(make_suite(make_run([0.01] * 20, **changes))).experiments[0].rows[0]


def test_a_cell_carries_its_number_and_interval_in_the_unit_of_the_column():
    cell = estimate_cell(Estimate(0.00231, 0.0022, 0.0024, 35, 3, "medians of 3 runs"), 1000)
    assert cell.text == "2.31 [2.20, 2.40]"
    assert (cell.number, cell.low, cell.high) == pytest.approx((2.31, 2.2, 2.4))
    assert cell.note == "medians of 3 runs, 35 steps of 3 runs"


def test_a_hole_names_its_reason_and_keeps_its_mark():
    cell = estimate_cell(None, mark="oversubscribed", why_empty="oversubscribed, not scaling")
    assert (cell.text, cell.number, cell.mark, cell.note) == (
        EMPTY,
        None,
        "oversubscribed",
        "oversubscribed, not scaling",
    )
    assert number_cell(None, why_empty="not recorded").note == "not recorded"
    assert count_cell(None).text == empty_cell("").text == EMPTY


def test_an_exact_number_shows_no_interval():
    assert estimate_cell(Estimate(1.0, 1.0, 1.0, 35, 1, "base")).text == "1.00"
    assert count_cell(4).text == "4"
    assert number_cell(0.25, 100).number == 25.0
    assert text_cell("small").number is None


def test_marks_follow_the_arm_and_an_emulated_failure_stays_a_failure():
    assert mark_of(None) == "missing"
    assert mark_of(row_of()) == "measured"
    assert mark_of(row_of(), emulated=True) == "emulated"
    assert mark_of(row_of(oversubscribed=True), emulated=True) == "oversubscribed"
    assert mark_of(row_of(unfinished=True), emulated=True) == "missing"
