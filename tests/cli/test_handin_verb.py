"""Tests of `scalewise handin`: a zip from measured runs, and one clear sentence for what is missing."""

import zipfile

import pytest

from run_folders import write_run
from scalewise.cli.verbs import main
from scalewise.jobs import course

pytestmark = pytest.mark.processes


def code(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["handin", *words])
    return int(end.value.code or 0)


def test_everything_that_is_missing_is_said_at_once(tmp_path, capsys):
    assert code("homwork2", "--runs", str(tmp_path)) == 1
    said = capsys.readouterr().err
    assert "'homwork2' is no homework of the course" in said and "homework2" in said
    assert "--name is missing" in said and "--id is missing" in said


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a\nb", "'a\\nb' holds a character that cannot be printed"),
        ("x" * 81, "has 81 letters; give one line of at most 80"),
    ],
)
def test_a_name_that_is_no_single_line_is_refused(capsys, name, says):
    assert code("homework2", "--name", name, "--id", "1") == 1
    assert says in capsys.readouterr().err


def test_a_place_that_cannot_be_written_to_is_named_before_anything_is_tried(tmp_path, capsys):
    out = tmp_path / "nowhere" / "mine.zip"
    assert code("homework2", "--name", "A", "--id", "1", "--runs", str(tmp_path), "--out", str(out)) == 1
    said = capsys.readouterr().err
    assert f"The zip cannot be written to {out}: there is no folder" in said and "--out" in said


def test_a_zip_that_cannot_be_written_in_the_end_is_a_sentence(measured, monkeypatch, capsys):
    def refuses(path, files):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(course, "write_zip", refuses)
    assert code("homework2", "--name", "A", "--id", "1", "--runs", str(measured)) == 1
    assert "homework2-a.zip: No space left on device." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("Ada Lovelace", "ada-lovelace"),
        ("../../etc", "etc"),
        ("\N{PARTY POPPER}", "handin"),
        ("\u6f22" * 80, "\u6f22" * 66),
    ],
)
def test_any_name_gives_the_name_of_a_file(name, file):
    assert course._file_name(name) == file


def test_a_script_that_was_saved_after_measuring_and_a_zip_that_was_there_are_told(measured, capsys):
    for _ in range(2):
        assert code("homework2", "--name", "A", "--id", "1", "--runs", str(measured)) == 0
    said = capsys.readouterr().err
    assert "practical5_single.py was saved after measuring; if you changed it, measure again" in said
    assert said.count("homework2-a.zip was there already and is replaced") == 1


def test_a_homework_without_runs_says_how_to_measure_it(tmp_path, capsys):
    assert code("homework2", "--name", "Ada", "--id", "1", "--runs", str(tmp_path)) == 1
    assert "scalewise run homework2" in capsys.readouterr().err


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """The runs of a homework 2 whose one script was measured; what is written without --out lands beside them."""
    script = tmp_path / "course" / "practical5_single.py"
    script.parent.mkdir()
    script.write_text("print('trained')\n")
    folder = tmp_path / "runs" / "homework2-1c9e04ab"
    write_run(folder, "codes-r0", 1, suite="homework2", experiment="codes", script=str(script), mode="python")
    (folder / "suite.toml").write_text('name = "homework2"\ntitle = "Homework 2"\nexperiment = []\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def test_a_measured_homework_becomes_a_zip_of_scripts_report_and_commands(measured, tmp_path, capsys):
    out = tmp_path / "mine.zip"

    words = ("homework2", "--name", "Ada L.", "--id", "18", "--runs", str(tmp_path / "runs"), "--out", str(out))
    assert code(*words) == 0
    assert capsys.readouterr().out.split() == [str(out)]
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == ["mine/README.txt", "mine/homework2.pdf", "mine/practical5_single.py"]
        assert archive.read("mine/homework2.pdf").startswith(b"%PDF")
        assert "Ada L. · 18" in archive.read("mine/README.txt").decode()


def test_a_script_that_does_not_run_alone_leaves_no_zip(tmp_path, capsys):
    script = tmp_path / "practical5_single.py"
    script.write_text("import constants\n")
    folder = tmp_path / "runs" / "homework2-1c9e04ab"
    write_run(folder, "codes-r0", 1, suite="homework2", experiment="codes", script=str(script), mode="python")
    (folder / "suite.toml").write_text('name = "homework2"\nexperiment = []\n')
    out = tmp_path / "mine.zip"
    assert code("homework2", "--name", "A", "--id", "1", "--runs", str(tmp_path / "runs"), "--out", str(out)) == 1
    assert "No module named 'constants'" in capsys.readouterr().err
    assert not out.exists()
