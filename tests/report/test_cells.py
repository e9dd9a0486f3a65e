"""Cells: the number behind the text, its interval, its mark, and gaps that are named."""

import pytest

from factories import make_run, make_suite
from scalewise.analysis.estimate import Estimate
from scalewise.analysis.summary import summarise
from scalewise.report.cells import (
    EMPTY,
    count_cell,
    empty_cell,
    estimate_cell,
    interval_cell,
    mark_of,
    number_cell,
    said,
    said_with_interval,
    text_cell,
)


def row_of(**changes):
    return summarise(make_suite(make_run([0.01] * 20, **changes))).experiments[0].rows[0]


def test_a_cell_carries_its_number_and_interval_in_the_unit_of_the_column():
    cell = estimate_cell(Estimate(0.00231, 0.0022, 0.0024, 35, 3, "medians of 3 runs", 0.90), 1000)
    assert (cell.text, cell.interval, cell.level) == ("2.31", "[2.20, 2.40]", 0.90)
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
    assert estimate_cell(Estimate(1.0, 1.0, 1.0, 35, 1, "base", 0.95)).text == "1.00"
    assert count_cell(4).text == "4"
    assert number_cell(0.25, 100).number == 25.0
    assert text_cell("small").number is None


def test_marks_follow_the_arm_and_an_emulated_failure_stays_a_failure():
    assert mark_of(None) == "missing"
    assert mark_of(row_of()) == "measured"
    assert mark_of(row_of(), emulated=True) == "emulated"
    assert mark_of(row_of(oversubscribed=True), emulated=True) == "oversubscribed"
    assert mark_of(row_of(unfinished=True), emulated=True) == "missing"


def test_sentences_say_what_the_table_shows():
    cell = interval_cell(161452.0, 146174.0, 178326.0, level=0.95)
    assert (cell.text, cell.interval) == ("161\u202f000", "[146\u202f000, 178\u202f000]")
    assert said(cell, "samples/s") == "161\u202f000\u00a0samples/s"
    assert said_with_interval(interval_cell(38.91, 33.66, 44.1, level=0.95), "ms") == "38.9\u00a0ms [33.7, 44.1]"
    assert said_with_interval(number_cell(2.0)) == "2.00"


def test_a_cell_keeps_the_level_of_its_interval():
    assert interval_cell(1.0, 0.5, 1.5, level=0.98).level == 0.98
    assert interval_cell(1.0, 0.5, 1.5, level=0.9).level == 0.9


def test_a_prediction_has_no_more_than_two_digits_and_a_measurement_keeps_its_own():
    found = Estimate(0.5421, 0.4630, 0.6360, 10, 1, "m", 0.95)
    assert (estimate_cell(found).text, estimate_cell(found).interval) == ("0.542", "[0.463, 0.636]")
    told = estimate_cell(found, mark="predicted")
    assert (told.text, told.interval, told.number) == ("0.54", "[0.46, 0.64]", 0.5421)
    assert estimate_cell(found, 1e5, mark="predicted").text == "54\u202f000"
