"""Sections of practical 7, homework 2 and homework 3: whole on whole evidence, holes named on what is missing."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_evidence import (
    accum_evidence,
    accumulation_evidence,
    codes_evidence,
    depth_evidence,
    devices_evidence,
    precision_evidence,
    scaler_evidence,
)
from evidence_factories import arm, make_evidence
from factories import make_outcome
from scalewise.explain.answer import Answer
from scalewise.explain.evidence import Evidence
from scalewise.report.document import Figure, Section, Table
from scalewise.report.gather import section_modules

SUITES = {"practical7": 3, "homework2": 3, "homework3": 2}


def sections(suite: str, evidence: Evidence) -> list[Section]:
    """The suite's own ones."""
    own = [module for module in section_modules(suite) if suite in module.SUITES]
    return [module.build(evidence) for module in own]


def blocks(found: list[Section], kind: type) -> Iterator[object]:
    return (block for section in found for block in section.blocks if isinstance(block, kind))


def merged(*parts: Evidence) -> Evidence:
    """The evidence of several experiments as that of one suite."""
    runs = {run.spec.name: run for part in parts for run in part.loaded.runs}
    return make_evidence(*runs.values(), inspections=tuple(one for part in parts for one in part.inspections))


WHOLE = {
    "practical7": lambda: merged(scaler_evidence(), precision_evidence(), accumulation_evidence()),
    "homework2": lambda: merged(codes_evidence(loss=1.001), accum_evidence()),
    "homework3": lambda: merged(depth_evidence(), devices_evidence()),
}


@pytest.mark.parametrize("suite", SUITES)
def test_nothing_measured_gives_tables_with_holes_and_no_answers(suite):
    found = sections(suite, make_evidence())
    assert len(found) == SUITES[suite]
    assert all(one.text.startswith("Not answered:") for one in blocks(found, Answer))  # type: ignore[attr-defined]
    assert list(blocks(found, Table))
    assert not list(blocks(found, Figure))


@pytest.mark.parametrize("suite", SUITES)
def test_every_row_of_every_table_has_a_cell_for_every_column(suite):
    for evidence in (make_evidence(), WHOLE[suite]()):
        for table in blocks(sections(suite, evidence), Table):
            assert isinstance(table, Table)
            assert all(len(row) == len(table.columns) for row in table.rows), table.id


@pytest.mark.parametrize("suite", SUITES)
def test_whole_evidence_answers_every_question(suite):
    found = sections(suite, WHOLE[suite]())
    answers = [one for one in blocks(found, Answer) if isinstance(one, Answer)]
    assert not [one for one in answers if one.text.startswith("Not answered")]
    assert all(one.condition and one.rests_on for one in answers)
    assert len({figure.id for figure in blocks(found, Figure)}) >= 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("suite", SUITES)
def test_what_an_answer_rests_on_is_there(suite):
    evidence = WHOLE[suite]()
    found = sections(suite, evidence)
    ids = {one.id for one in blocks(found, Table)} | {one.id for one in blocks(found, Figure)}  # type: ignore[attr-defined]
    for answer in blocks(found, Answer):
        assert isinstance(answer, Answer)
        assert set(answer.rests_on) <= ids | {run.spec.name for run in evidence.loaded.runs}, answer.question


@pytest.mark.parametrize("suite", SUITES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_part_of_the_evidence_gives_whole_sections(suite, data):
    whole = WHOLE[suite]()
    runs = [run for run in whole.loaded.runs if data.draw(st.booleans())]
    names = {run.spec.name for run in runs}
    seen = tuple(one for one in whole.inspections if one.run in names)
    found = sections(suite, make_evidence(*runs, inspections=seen))
    assert len(found) == SUITES[suite]
    for table in blocks(found, Table):
        assert isinstance(table, Table)
        assert all(len(row) == len(table.columns) for row in table.rows), table.id


def test_every_row_on_logical_devices_is_marked_emulated():
    for table in blocks(sections("homework3", WHOLE["homework3"]()), Table):
        assert isinstance(table, Table)
        assert all(any(cell.mark == "emulated" for cell in row) for row in table.rows), table.id


def test_a_failed_arm_is_a_named_hole():
    failed = arm(
        "amp", [], 2, axes={"precision": "float16"}, outcome=make_outcome("failed", "Rank 0 ran out of memory.")
    )
    whole = precision_evidence()
    runs = [run for run in whole.loaded.runs if run.spec.axes.get("precision") != "float16"]
    found = sections("practical7", make_evidence(*runs, failed))
    notes = [note for table in blocks(found, Table) for note in table.notes]  # type: ignore[attr-defined]
    assert any("ran out of memory" in note for note in notes)
