"""Tests of running the course in one go: a student's mistakes are recorded, and everything else goes on."""

import io
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from factories import make_machine
from run_folders import write_run
from scalewise.cli import verbs
from scalewise.console.output import Output
from scalewise.console.terminal_reporter import TerminalReporter
from scalewise.course.predictions import Prediction, kept
from scalewise.errors import BadRequest
from scalewise.jobs import course
from scalewise.jobs.course import CourseRequest
from scalewise.jobs.measure import Where
from scalewise.jobs.reporter import SILENT
from scalewise.plan.experiment import Suite
from scalewise.plan.find import course_folder
from scalewise.records.folder import SuiteFolder
from scalewise.records.load import load
from scalewise.report.write import ReportOptions

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
    files, written = course.write_pdf_or_page(SILENT, [folder], ReportOptions(tmp_path))
    assert written
    assert files == [tmp_path / "first.pdf"] and files[0].read_bytes().startswith(b"%PDF")


def test_what_cannot_be_reported_on_does_not_keep_the_others_from_it(ran, tmp_path, capsys):
    (folder,), _ = ran
    files, written = course.write_pdf_or_page(
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


@pytest.fixture
def asking(monkeypatch, tmp_path):
    """Two suites with one question each, answered from a text; what is measured is a folder with one run."""
    monkeypatch.chdir(tmp_path)
    one = Prediction("speedup", "The speedup is?", "times", lambda _: None, "So it is.")
    monkeypatch.setattr(course, "predictions_of", lambda _: (one,))
    monkeypatch.setattr(course, "_suite", lambda name, _: Suite(name, (), title=name.capitalize()))
    monkeypatch.setattr(course, "machine_facts", lambda _: make_machine())
    monkeypatch.setattr(course, "Servers", nullcontext)

    def run(typed: str | None, *made: str, interrupted: bool = False, again: bool = False):
        monkeypatch.setattr(sys, "stdin", None if typed is None else io.StringIO(typed))

        def measured(suite, *_):
            folder = SuiteFolder(Path("runs") / f"{suite.name}-{made[0] if made else 'a'}")
            if not (folder.path / "exp-r0").exists():
                write_run(folder.path, "exp-r0")
            return folder, not interrupted

        monkeypatch.setattr(course, "measure_here", measured)
        request = CourseRequest(Where(again=again), read_line=verbs.line_typed)
        return course.run_suites(TerminalReporter(Output()), request, ("first", "second"))

    return run


def said(folder: str) -> dict[str, float]:
    return kept(Path("runs") / folder / "predictions.json")


def test_what_was_said_outlives_an_interruption_in_the_first_suite(asking, capsys):
    with pytest.raises(KeyboardInterrupt):
        asking("2\n3\n", interrupted=True)
    capsys.readouterr()
    asking("")  # nobody is asked again, or this would be a BadRequest
    assert "what do you expect" not in capsys.readouterr().err
    assert said("first-a") == {"speedup": 2.0} and said("second-a") == {"speedup": 3.0}


def test_answers_to_one_suite_outlive_an_end_within_the_next(asking, capsys):
    with pytest.raises(BadRequest, match="nobody answers"):
        asking("2\n")
    asking("3\n")
    assert said("first-a") == {"speedup": 2.0} and said("second-a") == {"speedup": 3.0}


def test_a_new_folder_of_the_suite_gets_what_was_said_before_too(asking):
    asking("2\n3\n")
    asking("", "b")
    assert said("first-b") == {"speedup": 2.0} and said("second-b") == {"speedup": 3.0}


def test_of_what_was_measured_already_nothing_is_asked(asking, capsys):
    write_run(Path("runs/first-a"), "exp-r0")
    asking("3\n")
    assert "First: measured already" in capsys.readouterr().err
    assert said("first-a") == {} and said("second-a") == {"speedup": 3.0}


def test_what_is_said_before_measuring_again_is_not_put_beside_the_runs_before(asking):
    write_run(Path("runs/first-a"), "exp-r0")
    asking("2\n3\n", "b", again=True)
    asking("", "a")
    assert said("first-b") == {"speedup": 2.0} and said("first-a") == {}


def test_a_closed_input_is_told_in_a_sentence(asking):
    with pytest.raises(BadRequest, match="standard input is closed"):
        asking(None)


def test_bytes_of_another_encoding_are_no_number(asking, monkeypatch, capsys):
    monkeypatch.setattr(io, "StringIO", lambda typed: io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8"))
    asking(b"\xfc\n2\n3\n")
    assert "is not a number" in capsys.readouterr().err
    assert said("first-a") == {"speedup": 2.0}
