"""Files that are asked for beside a result are written, whatever becomes of the result and of its reader."""

import json
import sys

import pytest

from diagnosis_specimen import specimen_diagnosis
from gone_reader import GoneReader
from scalewise.cli.verbs import main
from scalewise.jobs import diagnose


@pytest.fixture
def doctor(tmp_path, monkeypatch, capsys):
    """The verb `doctor`, with a diagnosis that is there already."""
    examined = diagnose.ExaminedScript(specimen_diagnosis(tmp_path), (), diagnose.FOUND)
    monkeypatch.setattr(diagnose, "diagnose_script", lambda request, reporter: examined)

    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["doctor", str(tmp_path / "train.py"), *map(str, words)])
        streams = capsys.readouterr()
        return int(ended.value.code or 0), streams.out, streams.err

    return call


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_page_is_written_although_the_reader_of_the_result_has_gone(doctor, tmp_path, monkeypatch, form):
    page, log = tmp_path / "page.html", tmp_path / "log.sarif"
    monkeypatch.setattr(sys, "stdout", GoneReader())
    code, _, err = doctor("--html", page, "--sarif", log, *form)
    assert code == 0 and "loss-not-divided" in page.read_text()
    assert json.loads(log.read_text())["runs"]
    assert f"written: {page}" in err and f"written: {log}" in err


def test_a_file_that_cannot_be_written_keeps_back_neither_the_result_nor_the_other_file(doctor, tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    log = tmp_path / "log.sarif"
    code, out, err = doctor("--html", tmp_path / "taken" / "page.html", "--sarif", log)
    assert code == 1 and "loss-not-divided" in out and log.exists()
    assert "cannot be written" in err and "Traceback" not in err


def test_a_file_that_cannot_be_written_is_told_although_the_reader_has_gone(doctor, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file, not a folder")
    monkeypatch.setattr(sys, "stdout", GoneReader())
    code, _, err = doctor("--html", tmp_path / "taken" / "page.html")
    assert code == 1 and "cannot be written" in err
