"""Tests of what a student expects: asked once, kept, and shown beside what was measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_evidence import depth_evidence, devices_evidence
from evidence_factories import make_evidence
from scalewise.course import predictions
from scalewise.course.homework import course_suites, predictions_of
from scalewise.course.homework3 import h3_2_depth as h3_2
from scalewise.course.homework3 import h3_4_more_devices as h3_4
from scalewise.course.homework3 import h3_5_copies as h3_5
from scalewise.course.predictions import asked, keep, kept, section, verdict
from scalewise.errors import BadRequest
from scalewise.report.cells import number_cell
from scalewise.report.document import Cell, Table

THREE = predictions_of("homework3")


def answering(*lines: str):
    waiting = iter(lines)
    return lambda: next(waiting, "")


def homework3():
    one, two = depth_evidence(), devices_evidence()
    runs = (*one.loaded.runs, *two.loaded.runs)
    evidence = make_evidence(*runs, inspections=(*one.inspections, *two.inspections))
    return [module.build(evidence) for module in (h3_2, h3_4, h3_5)]


def test_every_question_is_asked_and_what_is_no_number_is_asked_again():
    said: list[str] = []
    found = asked("Homework 3", THREE, answering("1\n", "many\n", "4\n", "\n", "0 %\n", "1,5\n"), said.append)
    assert found == {"copies-2": 1.0, "copies-5": 4.0, "at-once": 0.0, "five-over-two": 1.5}
    assert "'many' is not a number; for example: 1.5" in said


def test_a_closed_input_is_one_sentence():
    with pytest.raises(BadRequest) as caught:
        asked("Homework 3", THREE, answering("1\n"), lambda _: None)
    assert "standard input is closed" in caught.value.sentence


def test_after_three_tries_the_question_is_left_out():
    lines = ("a\n", "b\n", "nan\n", *["2\n"] * 4)
    said: list[str] = []
    assert "copies-2" not in asked("x", THREE, answering(*lines), said.append)
    assert "question 1 is left out" in said


def test_what_was_said_first_stays(tmp_path):
    file = tmp_path / "runs" / predictions.FILE
    keep(file, {"depth": 4.0})
    keep(file, {"depth": 3.0})
    assert kept(file) == {"depth": 4.0}


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"a": "x", "b": true}', "[" * 100_000])
def test_a_file_that_cannot_be_used_is_as_none(tmp_path, text):
    (tmp_path / predictions.FILE).write_text(text)
    assert kept(tmp_path / predictions.FILE) == {}


def test_what_was_said_stands_beside_what_was_measured_with_the_reason():
    found = section(THREE, {"copies-5": 5.0, "copies-2": 1.0, "at-once": 50.0}, homework3())
    assert found is not None
    (table,) = found.blocks
    assert isinstance(table, Table)
    assert [(row[1].text, row[2].text, row[3].text) for row in table.rows] == [
        ("1", "1", "right"),
        ("5", "4", "too high"),
        ("50", "0", "too high"),
    ]
    assert table.rows[1][4].text.endswith("N − 1.")


def test_a_number_that_was_not_measured_is_said_to_be_missing():
    found = section(THREE, {"depth": 4.0}, [])
    assert found is not None and isinstance(found.blocks[0], Table)
    assert found.blocks[0].rows[0][3].text == "not measured"


def test_without_guesses_there_is_no_section():
    assert section(THREE, {}, homework3()) is None


@pytest.mark.parametrize("suite", course_suites())
def test_homeworks_have_five_questions_or_none_and_no_two_of_one_name(suite):
    found = predictions_of(suite)
    assert len(found) in (0, 5)
    assert len({one.id for one in found}) == len(found)


@given(st.floats(-1e6, 1e6), st.floats(0.1, 1e6))
def test_a_guess_inside_the_interval_is_right_and_outside_it_has_a_side(guess, value):
    measured = Cell("x", value, value * 0.9, value * 1.1)
    said = verdict(guess, measured)
    assert (said == "right") == (value * 0.9 <= guess <= value * 1.1)
    if said in ("too high", "too low"):
        assert (said == "too high") == (guess > value)


def test_a_guess_near_an_exact_number_is_close():
    assert verdict(4.5, number_cell(4.0)) == "close"
    assert verdict(4.0, number_cell(4.0)) == "right"
