"""Tests of the diagnosis in the terminal: order, width, nothing that steers a terminal, nothing left unsaid."""

import dataclasses

import pytest

from diagnosis_specimen import specimen_diagnosis
from scalewise.console.doctor_view import show_diagnosis
from scalewise.console.output import Output
from scalewise.doctor.finding import Diagnosis


@pytest.fixture
def shown(tmp_path, capsys, monkeypatch) -> str:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    show_diagnosis(Output(), specimen_diagnosis(tmp_path))
    return capsys.readouterr().out


def test_findings_come_worst_first_then_suspicions_then_notes(shown):
    order = ["WRONG  loss-not-divided", "SLOW  sync-every-micro-batch",
             "Suspected, not proved", "WRONG?  scheduler-per-micro-batch", "Worth knowing",
             "NOTE  group-not-destroyed", "Not checked (2)", "Passed ("]  # fmt: skip
    places = [shown.index(text) for text in order]
    assert places == sorted(places)


def test_each_finding_has_verdict_why_where_price_and_fix(shown):
    assert "The loss is not divided by the 4 micro-batches" in shown
    assert "train.py:7 in train\n          7 | loss.backward()" in shown
    assert "also   train.py:9 in train" in shown
    assert "4 times (95 %: 3.99 to 4.01): the gradient that is applied" in shown
    assert "   fix    loss = loss / accumulate\n          loss.backward()\n" in shown
    assert "proof  shown by running it again with the fix in 10 steps\n          in 10 of 10" in shown
    assert "3.00 MiB: memory that is kept" in shown


def test_it_says_what_passed_and_what_could_not_be_checked_and_why(shown):
    words = " ".join(shown.split())
    assert "1 wrong, 1 slow found, 1 suspicion, 1 note;" in words
    assert "read-every-step, clock-without-synchronise: the script used no GPU." in words
    assert "Not checked (1): input-bound: needs 8 steps, saw 5." in words


def test_it_fits_80_columns_and_needs_no_colour(shown):
    assert all(len(line) <= 80 for line in shown.splitlines() if "/runs" not in line)
    assert "\x1b" not in shown, "what a script wrote must not steer the terminal"
    assert "\\x1b[31mmean" in shown


def test_nothing_found_is_said_plainly(tmp_path, capsys):
    clean = Diagnosis(str(tmp_path / "train.py"), (), ("same-data", "tiny-buckets"), (), steps=5, ranks=2, seconds=1.0)
    show_diagnosis(Output(), clean)
    out = capsys.readouterr().out
    assert "Nothing wrong was found; 2 checks passed, 0 could not be made." in out
    assert "Passed (2): same-data, tiny-buckets." in out


def test_a_script_that_failed_by_itself_is_said_to_have(tmp_path, capsys):
    failed = dataclasses.replace(specimen_diagnosis(tmp_path), failure="ValueError: no such file")
    show_diagnosis(Output(), failed)
    assert "The script failed by itself: ValueError: no such file" in capsys.readouterr().out
