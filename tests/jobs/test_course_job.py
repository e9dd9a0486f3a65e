"""Tests of running the course in one go: a student's mistakes are recorded, and everything else goes on."""

import shutil
from pathlib import Path

import pytest

from scalewise.cli import verbs
from scalewise.console.output import Output
from scalewise.console.reporter import TerminalReporter
from scalewise.jobs import course
from scalewise.jobs.course import CourseRequest
from scalewise.jobs.measure import Where
from scalewise.jobs.reporter import SILENT
from scalewise.plan.scripts import course_folder
from scalewise.report.write import ReportOptions
from scalewise.results.load import load

SUITE = """
name = "{name}"
[[experiment]]
name = "broken"
script = "course:practical6_ddp.py"
env = {{ DIM = "32", STEPS = "6" }}
[[experiment]]
name = "refused"
script = "course:practical7_accumulation.py"
env = {{ DIM = "32", STEPS = "6", ACCUM_STEPS = "0" }}
[[experiment]]
name = "missing"
script = "course:practical9.py"
[[experiment]]
name = "good"
script = "course:practical7_amp.py"
env = {{ DIM = "32", STEPS = "12", PRECISION = "float32" }}
"""
REQUEST = CourseRequest(Where())


@pytest.fixture(scope="module")
def homework(tmp_path_factory):
    """A student's folder with a copy of the course, one script of which is broken; and suites over it."""
    folder = tmp_path_factory.mktemp("student")
    shutil.copytree(course_folder(), folder / "course", ignore=shutil.ignore_patterns("__pycache__"))
    script = folder / "course" / "practical6_ddp.py"
    script.write_text(script.read_text().replace("for step in range(STEPS):", "for step in range(STEPS)"))
    (folder / "first.toml").write_text(SUITE.format(name="first"))
    (folder / "second.toml").write_text(
        'name = "second"\n[[experiment]]\nname = "no"\nscript = "course:practical9.py"\n'
    )
    return folder


@pytest.fixture(scope="module")
def ran(homework):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(homework)
        folders, complete = course.run_suites(SILENT, REQUEST, ("first.toml", "second.toml"))
        return [folder.resolve() for folder in folders], complete


def test_a_broken_script_is_a_failed_run_and_the_suite_goes_on(ran, homework):
    (folder,), complete = ran
    assert not complete, "nothing of the second suite could run"
    ends = {run.spec.experiment: run.outcome for run in load(folder).runs}
    assert {name: end.kind for name, end in ends.items()} == {
        "broken": "raised",
        "refused": "raised",
        "good": "finished",
    }
    assert "SyntaxError" in ends["broken"].sentence
    assert str(homework / "course" / "practical6_ddp.py") in "\n".join(ends["broken"].ranks[0].last_lines)
    assert "ZeroDivisionError" in ends["refused"].sentence


def test_the_report_is_written_all_the_same(ran, tmp_path):
    (folder,), _ = ran
    files, written = course.write_reports(SILENT, [folder], ReportOptions(tmp_path))
    assert written
    assert files == [tmp_path / "first.pdf"] and files[0].read_bytes().startswith(b"%PDF")


def test_what_cannot_be_reported_on_does_not_keep_the_others_from_it(ran, tmp_path, capsys):
    (folder,), _ = ran
    files, written = course.write_reports(
        TerminalReporter(Output()), [tmp_path / "nothing", folder], ReportOptions(tmp_path / "out")
    )
    assert not written and len(files) == 1
    assert "nothing" in capsys.readouterr().err


def test_the_verb_prints_what_to_read_and_exits_as_the_worst_suite(ran, homework, monkeypatch, capsys):
    (folder,), _ = ran
    monkeypatch.chdir(homework)
    monkeypatch.setattr(course, "run_suites", lambda reporter, request: ([folder], True))
    with pytest.raises(SystemExit) as end:
        verbs.main(["course", "--quiet"])
    assert end.value.code == 2, "a run has failed"
    assert capsys.readouterr().out.splitlines() == ["reports/first.pdf"]


def test_a_machine_without_typst_gives_the_page_to_read():
    made = [Path("a.html"), Path("a.csv")]
    assert course._to_read(made) == [Path("a.html")]
    assert course._to_read([Path("a.pdf"), *made]) == [Path("a.pdf")]


def test_full_is_for_suites(homework, monkeypatch, capsys):
    monkeypatch.chdir(homework)
    with pytest.raises(SystemExit) as end:
        verbs.main(["run", "course/practical7_amp.py", "--full"])
    assert end.value.code == 1
    assert "--full is for a suite; course/practical7_amp.py is a script." in capsys.readouterr().err
