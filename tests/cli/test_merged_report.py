"""Tests of one report of several machines: what cannot go together is one sentence, and what is not used is told."""

from pathlib import Path

import pytest

from factories import make_machine
from run_folders import write_run
from scalewise.course.homework import pages_of
from scalewise.errors import BadRequest
from scalewise.records.codec import write_json
from scalewise.report.write import ReportOptions, write_merged_report


def suite(folder: Path, name: str = "homework2", gpus: int = 0) -> Path:
    run = write_run(folder, "codes-r0", 1, suite=name, experiment="codes")
    (folder / "suite.toml").write_text(f'name = "{name}"\nexperiment = []\n')
    if gpus:
        write_json(run.machine, make_machine(gpus=gpus))
    return folder


@pytest.fixture
def merged(tmp_path):
    def write(*folders: Path) -> list[str]:
        said: list[str] = []
        options = ReportOptions(tmp_path / "out", formats=("html",), pages_of=pages_of)
        write_merged_report(folders[0], folders[1:], options, said.append)
        return said

    return write


def test_the_same_folder_twice_is_refused(merged, tmp_path):
    one = suite(tmp_path / "one")
    with pytest.raises(BadRequest, match="is named twice"):
        merged(one, one)


def test_suites_of_different_kinds_are_refused_by_name(merged, tmp_path):
    with pytest.raises(BadRequest, match=r"is of homework2, and .* is of homework3"):
        merged(suite(tmp_path / "one"), suite(tmp_path / "two", "homework3"))


def test_a_suite_of_ones_own_is_refused_instead_of_written_without_the_other_machine(merged, tmp_path):
    with pytest.raises(BadRequest, match="mine is no suite of the course") as caught:
        merged(suite(tmp_path / "one", "mine"), suite(tmp_path / "two", "mine"))
    assert "scalewise compare" in caught.value.hint


def test_a_folder_of_which_nothing_is_used_is_named(merged, tmp_path):
    one, cpu = suite(tmp_path / "one"), suite(tmp_path / "cpu")
    gpu, second = suite(tmp_path / "gpu", gpus=2), suite(tmp_path / "second", gpus=4)
    said = merged(one, cpu, gpu, second)
    assert [line for line in said if "is not used" in line] == [
        f"{cpu} was measured without a GPU, and rows of GPUs are what is taken: it is not used",
        f"rows of GPUs are taken from one machine, {gpu}: {second} is not used",
    ]


def test_what_is_used_needs_no_word(merged, tmp_path):
    assert not [line for line in merged(suite(tmp_path / "a"), suite(tmp_path / "b", gpus=1)) if "not used" in line]
