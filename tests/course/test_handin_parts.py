"""A hand-in holds scripts that run alone, a read-me with every command, and nothing that differs by the hour."""

import subprocess
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from evidence_factories import arm, make_evidence
from processes import process_runs
from scalewise.course import handin_parts
from scalewise.course.handin_parts import (
    HandedScript,
    newest_folder,
    problem_of,
    read_me,
    scripts_of,
    write_zip,
)
from scalewise.errors import BadRequest
from scalewise.report.document import TitleBlock

pytestmark = pytest.mark.processes


def script(tmp_path: Path, text: str, ranks: int = 0) -> HandedScript:
    file = tmp_path / "mine.py"
    file.write_text(text)
    return HandedScript(file, ranks)


def test_a_script_that_runs_alone_has_no_problem_and_gets_small_constants(tmp_path):
    text = "import os\nassert os.listdir() == ['mine.py']\nassert os.environ['DIM'] == '64'\n"
    assert problem_of(script(tmp_path, text)) == ""


def test_a_script_that_needs_a_second_file_is_refused_with_its_own_error(tmp_path):
    (tmp_path / "constants.py").write_text("DIM = 3")
    assert problem_of(script(tmp_path, "from constants import DIM")) == (
        "mine.py ended with exit code 1 in an empty folder: ModuleNotFoundError: No module named 'constants'"
    )


def test_a_script_that_does_not_end_is_stopped_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(handin_parts, "LIMIT_SECONDS", 1.0)
    assert problem_of(script(tmp_path, "while True: pass")) == "mine.py did not end within 1 s in an empty folder"


def test_nothing_of_a_script_that_did_not_end_is_left_running(tmp_path, monkeypatch):
    begun = tmp_path / "begun"

    def over_once_all_have_begun(process, timeout):
        deadline = time.monotonic() + 200
        while (begun.read_text().count("\n") if begun.exists() else 0) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        raise subprocess.TimeoutExpired("mine.py", timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", over_once_all_have_begun)
    text = f"import os, time\nopen({str(begun)!r}, 'a').write(f'{{os.getpid()}}\\n')\nwhile True: time.sleep(0.1)\n"
    assert "did not end" in problem_of(script(tmp_path, text, ranks=2))
    ranks = [int(pid) for pid in begun.read_text().split()]
    assert len(ranks) == 2 and not any(process_runs(pid) for pid in ranks)


def test_an_abort_of_gloo_after_training_is_no_problem_of_the_script(tmp_path):
    count = tmp_path / "count"
    text = (
        f"import os, sys\nopen({str(count)!r}, 'a').write('x')\n"
        f"if os.path.getsize({str(count)!r}) < 3:\n"
        f"    sys.stderr.write('{handin_parts.ABORTED_AT_EXIT}\\n')\n    sys.stderr.flush()\n    os.abort()\n"
    )
    assert problem_of(script(tmp_path, text)) == ""
    assert count.read_text() == "xxx"


def test_a_rank_that_dies_of_a_signal_is_told_by_its_name(tmp_path):
    text = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    assert problem_of(script(tmp_path, text, ranks=1)).endswith("in an empty folder: a rank died of SIGSEGV")


def test_a_script_that_is_gone_is_named(tmp_path):
    assert "mine.py cannot be read" in problem_of(HandedScript(tmp_path / "mine.py", 0))


def test_ranks_are_started_by_torchrun(tmp_path):
    text = "import os\nassert os.environ['WORLD_SIZE'] == '2'\n"
    found = script(tmp_path, text, ranks=2)
    assert found.command == "torchrun --standalone --nproc_per_node=2 mine.py"
    assert problem_of(found) == ""


def test_every_script_of_the_suite_is_handed_in_once_with_its_most_ranks(tmp_path):
    runs = []
    for ranks, name in ((1, "a.py"), (2, "a.py"), (2, "b.py")):
        run = arm("codes", [0.1] * 40, ranks)
        runs.append(replace(run, spec=replace(run.spec, script=f"/student/{name}", name=f"r{ranks}{name}")))
    found = scripts_of(make_evidence(*runs))
    assert [(one.file.name, one.ranks) for one in found] == [("a.py", 2), ("b.py", 2)]


def test_a_homework_that_was_not_measured_says_how_to_measure_it(tmp_path):
    with pytest.raises(BadRequest) as caught:
        newest_folder("homework2", tmp_path)
    assert caught.value.hint == "Measure first: scalewise run homework2"


def test_the_read_me_holds_the_author_and_every_command(tmp_path):
    author = TitleBlock("Ada", "1815", "Parallelism", "2026-11-18", "two cores")
    text = read_me("Homework 2", author, [HandedScript(Path("a.py"), 2)], "homework2.pdf", "homework2")
    assert "Ada · 1815 · Parallelism" in text
    assert "    torchrun --standalone --nproc_per_node=2 a.py\n" in text
    assert text.index("cp *.py course/") < text.index("scalewise run homework2")


def test_the_same_files_give_the_same_zip(tmp_path):
    for name in ("one.zip", "two.zip"):
        write_zip(tmp_path / name, {"x/b.txt": b"b", "x/a.txt": b"a"})
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    assert zipfile.ZipFile(tmp_path / "one.zip").namelist() == ["x/a.txt", "x/b.txt"]
