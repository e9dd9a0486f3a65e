"""Whatever part of a suite was measured, its sections are whole, and what is missing has its gap named."""

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
    growing_evidence,
    precision_evidence,
    scaler_evidence,
)
from evidence_factories import arm, make_evidence
from factories import make_outcome
from scalewise.analysis.evidence import Evidence
from scalewise.course import gpus
from scalewise.course.homework import course_suites, pages_of
from scalewise.report.build_document import section_modules
from scalewise.report.document import Answer, Figure, Section, Table

SUITES = course_suites()


@pytest.fixture(autouse=True, scope="module")
def no_records():
    """Rows that are predicted from the records of other machines are tested by themselves."""
    before = gpus.shipped
    gpus.shipped = lambda: None
    yield
    gpus.shipped = before


def sections(suite: str, evidence: Evidence) -> list[Section]:
    """The suite's own ones and the closing one."""
    return [module.build(evidence) for module in section_modules(pages_of(suite))]


def blocks(found: list[Section], kind: type) -> Iterator[object]:
    return (block for section in found for block in section.blocks if isinstance(block, kind))


def merged(*parts: Evidence) -> Evidence:
    """The evidence of several experiments as that of one suite; of two runs with one name the first counts."""
    runs = {run.spec.name: run for part in reversed(parts) for run in part.loaded.runs}
    seen = {one.run: one for part in reversed(parts) for one in part.inspections}
    return make_evidence(*runs.values(), inspections=tuple(seen.values()))


WHOLE = {
    "practical7": lambda: merged(
        accumulation_evidence(), precision_evidence(), scaler_evidence(), make_evidence(*growing_evidence())
    ),
    "homework2": lambda: merged(codes_evidence(loss=1.001), accum_evidence(), make_evidence(*growing_evidence())),
    "homework3": lambda: merged(depth_evidence(), devices_evidence()),
}


@pytest.mark.parametrize("suite", SUITES)
def test_nothing_measured_gives_answers_that_say_so_and_no_figures(suite):
    found = sections(suite, make_evidence())
    answers = [one for one in blocks(found, Answer) if isinstance(one, Answer)]
    assert answers and all(one.question and one.verdict for one in answers)
    assert not list(blocks(found, Figure))
    assert found[-1].id == "closing"


@pytest.mark.parametrize("suite", WHOLE)
def test_whole_evidence_answers_every_question_and_draws_figures(suite):
    found = sections(suite, WHOLE[suite]())
    answers = [one for one in blocks(found, Answer) if isinstance(one, Answer)]
    gaps = [one.verdict for one in answers if "cannot be answered" in one.verdict]
    assert gaps == (["This cannot be answered: the memory was not seen."] if suite == "practical7" else [])
    assert len({figure.id for figure in blocks(found, Figure)}) >= 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("suite", WHOLE)
def test_what_an_answer_rests_on_is_there(suite):
    found = sections(suite, WHOLE[suite]())
    ids = {one.id for section in found for one in section.blocks if hasattr(one, "id")}
    for answer in blocks(found, Answer):
        assert isinstance(answer, Answer)
        assert set(answer.rests_on) <= ids, answer.question


@pytest.mark.parametrize("suite", WHOLE)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_any_part_of_the_evidence_gives_whole_sections(suite, data):
    whole = WHOLE[suite]()
    runs = [run for run in whole.loaded.runs if data.draw(st.booleans())]
    names = {run.spec.name for run in runs}
    seen = tuple(one for one in whole.inspections if one.run in names)
    found = sections(suite, make_evidence(*runs, inspections=seen))
    for table in blocks(found, Table):
        assert isinstance(table, Table)
        assert all(len(row) == len(table.columns) for row in table.rows), table.id
    for answer in blocks(found, Answer):
        assert isinstance(answer, Answer) and answer.verdict, answer


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
