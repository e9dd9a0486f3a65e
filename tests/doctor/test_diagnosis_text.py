"""Tests of a diagnosis in words: prices with units and intervals, paths from the right root, lines that may be gone."""

from dataclasses import replace
from pathlib import Path

import pytest

from diagnosis_specimen import SCRIPT, place, specimen_diagnosis
from factories import make_estimate
from scalewise.doctor.diagnosis_text import (
    place_text,
    price_text,
    reasons,
    relative,
    root_of,
    sort_findings,
    source_around,
    summary_text,
    sure_text,
)
from scalewise.doctor.finding import Diagnosis, Finding, Price, Unchecked


def priced(value, unit, low, high):
    return Price(value, unit, "waiting", "measured", make_estimate(value, low, high))


@pytest.mark.parametrize(
    ("price", "text"),
    [
        (
            priced(12.3456, "ms per step", 11.0, 13.5),
            "12.3 ms per step (95 %: 11.0 to 13.5)",
        ),
        (Price(3 * 2**20, "bytes", "waiting", "measured"), "3.00 MiB"),
        (priced(4.0, "times", 3.9, 4.1), "4 times (95 %: 3.9 to 4.1)"),
        (priced(0.5, "share", 0.4, 0.6), "50 % (95 %: 40 % to 60 %)"),
        (Price(16, "samples", "waiting", "measured"), "16 samples"),
        (Price(3, "steps", "waiting", "measured"), "3 steps"),
        (Price(4.0, "times", "waiting", "measured", make_estimate(4.0, 3.9, 4.1, 0.98)), "4 times (98 %: 3.9 to 4.1)"),
    ],
)
def test_a_price_has_its_unit_and_interval(price, text):
    assert price_text(price) == f"{text}: waiting; measured"


def test_findings_are_sorted_by_what_they_are_worth(tmp_path):
    found = sort_findings(specimen_diagnosis(tmp_path))
    assert [len(found.proved), len(found.suspected), len(found.notes)] == [2, 1, 1]


def test_the_summary_counts_and_says_nothing_plainly(tmp_path):
    assert summary_text(specimen_diagnosis(tmp_path)).startswith("1 wrong, 1 slow found, 1 suspicion, 1 note; ")
    clean = Diagnosis("x.py", (), ("a",), (Unchecked("b", "c"), Unchecked("d", "c")))
    assert summary_text(clean) == "Nothing wrong was found; 1 check passed, 2 could not be made."
    failed = replace(clean, failure="ValueError: no")
    assert summary_text(failed).startswith("Nothing wrong was found as far as the script got; ")


def test_checks_that_could_not_be_made_are_told_by_reason():
    unchecked = (Unchecked("b", "c"), Unchecked("d", "c"), Unchecked("e", "f"))
    stepped = Diagnosis("x.py", (), (), unchecked, steps=3)
    assert reasons(stepped) == {"c": ["b", "d"], "f": ["e"]}
    assert reasons(replace(stepped, steps=0)) == {"no optimizer step was made": ["b", "d", "e"]}


def test_how_sure_a_finding_is_names_steps_and_ranks():
    finding = Finding("x", "wrong", "s", (), "", proof="observed", steps_seen=1, ranks=(0, 2))
    assert sure_text(finding) == "observed in 1 step on ranks 0 and 2"


def test_paths_are_told_from_the_repository_else_from_here_else_from_the_script(tmp_path, monkeypatch):
    inner = tmp_path / "repo" / "src"
    inner.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert root_of(inner / "train.py") == tmp_path
    monkeypatch.chdir("/")
    assert root_of(Path("/nowhere/else/train.py")) == Path("/")
    (tmp_path / "repo" / ".git").mkdir()
    assert root_of(inner / "train.py") == tmp_path / "repo"
    assert relative(str(inner / "train.py"), tmp_path / "repo") == "src/train.py"
    assert relative("/else/where.py", tmp_path) == "/else/where.py"


def test_a_place_is_file_line_and_function(tmp_path):
    assert place_text(place(tmp_path / "train.py", 7), tmp_path) == "train.py:7 in train"
    assert place_text(place(tmp_path / "train.py", 7, "<module>"), tmp_path) == "train.py:7"


def test_lines_around_a_place_stop_at_the_ends_of_the_file(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    assert [line.number for line in source_around(place(script, 1), around=2)] == [1, 2, 3]
    assert [line.number for line in source_around(place(script, 10), around=2)] == [8, 9, 10]


@pytest.mark.parametrize("text", [None, "", "x = 1\n" * 20])
def test_a_file_that_is_gone_or_has_changed_gives_the_line_that_was_noted(tmp_path, text):
    script = tmp_path / "train.py"
    if text is not None:
        script.write_text(text)
    (line,) = source_around(place(script, 7))
    assert (line.number, line.text) == (7, "loss.backward()")
