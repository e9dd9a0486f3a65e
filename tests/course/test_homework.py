"""A new homework is one folder: with it the suite is found, run in its place, asked about, reported and handed in."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from run_folders import write_run
from scalewise import course
from scalewise.course.homework import course_suites, pages_of, predictions_of
from scalewise.course.predictions import FILE, keep
from scalewise.errors import BadRequest
from scalewise.jobs.course import hand_in
from scalewise.jobs.reporter import SILENT
from scalewise.plan import find
from scalewise.plan.suite import load_suite
from scalewise.report.build_document import document_of, evidence_of
from scalewise.report.document import Answer, Table
from scalewise.report.write import ReportOptions

NAME = "homework9"
FOLDER = {
    "__init__.py": '''
"""Homework 9: one question."""

from scalewise.course.homework import Homework, verdicts
from scalewise.course.predictions import Prediction, cell_in

HOMEWORK = Homework(
    most_pages=1,
    summary=verdicts(("H9.1", 0, "the step")),
    predictions=(Prediction("step", "How long?", "ms", cell_in("h9-1-step", "1", "Step"), "It was measured."),),
)
''',
    "h9_1.py": '''
"""H9.1: how long a step is."""

from scalewise.analysis.evidence import Evidence
from scalewise.report.cells import count_cell, estimate_cell
from scalewise.report.document import Answer, Column, Section, Table

ORDER = 10


def build(evidence: Evidence) -> Section:
    rows = evidence.rows("only")
    cells = tuple((count_cell(row.ranks), estimate_cell(row.step_seconds, 1e3)) for row in rows)
    table = Table("h9-1-step", "The step", (Column("Ranks"), Column("Step", "ms")), cells)
    answer = Answer("H9.1", "How long?", "short.", rests_on=(table.id,), word="Yes")
    return Section("h9-1", "H9.1 A step", (table, answer))
''',
    "suite.toml": """
name = "homework9"
title = "Homework 9"
[[experiment]]
name = "only"
script = "scalewise:linear"
ranks = [1]
""",
}


@pytest.fixture
def homework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a homework that nobody else knows, where the package would have it."""
    place = tmp_path / "scalewise" / "course"
    folder = place / NAME
    folder.mkdir(parents=True)
    for name, text in FOLDER.items():
        (folder / name).write_text(text)
    monkeypatch.setattr(course, "__path__", [*course.__path__, str(place)])
    monkeypatch.setattr(find, "__file__", str(tmp_path / "scalewise" / "plan" / "find.py"))
    importlib.invalidate_caches()
    yield folder
    for name in [name for name in sys.modules if name.startswith(f"{course.__name__}.{NAME}")]:
        del sys.modules[name]
    vars(course).pop(NAME, None)


def test_it_is_run_after_the_others_by_its_name(homework: Path):
    assert course_suites() == ("homework1", "practical7", "homework2", "homework3", NAME)
    assert load_suite(find.find_suite(NAME)).title == "Homework 9"


def test_it_is_asked_about_and_reported(homework: Path, tmp_path: Path):
    assert [one.id for one in predictions_of(NAME)] == ["step"]
    runs = tmp_path / "runs"
    write_run(runs, "only-ranks1-r0", suite=NAME, experiment="only")
    (runs / "suite.toml").write_text(FOLDER["suite.toml"])
    keep(runs / FILE, {"step": 1.0})
    said: list[str] = []
    document = document_of(evidence_of(runs), said.append, pages_of)
    assert not said
    assert [section.id for section in document.sections] == ["h9-1", "closing", "predictions"]
    assert document.most_pages == 1
    assert document.summary is not None and document.summary.sentences == ("H9.1, the step: short.",)
    blocks = [block for section in document.sections for block in section.blocks]
    assert [block.row for block in blocks if isinstance(block, Answer)] == ["H9.1"]
    expected = next(block for block in blocks if isinstance(block, Table) and block.id == "predictions")
    assert expected.rows[0][2].number is not None


def test_it_can_be_handed_in(homework: Path, tmp_path: Path):
    with pytest.raises(BadRequest) as caught:
        hand_in(NAME, tmp_path, tmp_path / "x.zip", ReportOptions(), SILENT)
    assert "is no homework" not in caught.value.sentence and "--name is missing" in caught.value.sentence


def test_without_its_folder_nothing_knows_it():
    assert NAME not in course_suites()
    assert pages_of(NAME).modules == () and predictions_of(NAME) == ()
