"""Tests of what a replay makes of a finding that claims time."""

from dataclasses import replace
from pathlib import Path

import pytest
from case_factory import Sheet, make_case

from diagnosis_specimen import SCRIPT, place, specimen_diagnosis
from factories import make_estimate
from scalewise.doctor.finding import (
    Diagnosis,
    Finding,
    Price,
    Replayed,
    TimeSaved,
    Unchecked,
    place_text,
    price_text,
    priced_by_time,
    priced_or_dismissed,
    reasons,
    relative,
    root_of,
    sort_findings,
    source_around,
    summary_text,
    sure_text,
)
from scalewise.records.spec import Change

FINDING = Finding("tiny-buckets", "slow", "Small.", ("8 buckets",), "fix")


def settled(low=1.0, high=3.0, applied=2, trouble="", timed=True, settle=priced_by_time):
    case = make_case(Sheet().windows(2))
    saved = TimeSaved(make_estimate((low + high) / 2, low, high), 10.0, "measured in turns") if timed else None
    return settle(FINDING, Replayed(Change("ddp_option"), case, case, applied, saved, trouble), "small pieces")


def test_a_faster_step_is_the_price():
    found = settled()
    assert found.proof == "replayed" and found.counts
    assert (found.price.value, found.price.unit, found.price.interval.low, found.price.interval.high) == (
        2.0,
        "ms per step",
        1.0,
        3.0,
    )
    assert "20.0% less" in found.evidence[-1]


def test_a_slower_step_makes_it_a_suspicion():
    found = settled(-3.0, -1.0)
    assert found.proof == "suspected" and found.price is None and "2 ms longer" in found.evidence[-1]


def test_a_difference_that_may_be_nothing_is_said_to_be_so():
    found = settled(-1.0, 2.0)
    assert found.proof == "observed" and found.price is None and "cannot be told from nothing" in found.evidence[-1]


def test_a_mended_script_that_fails_makes_it_a_suspicion():
    found = settled(trouble="rank 0 raised RuntimeError")
    assert found.proof == "suspected" and "rank 0 raised RuntimeError" in found.evidence[-1]


@pytest.mark.parametrize("values", [{"applied": 0}, {"timed": False}])
def test_a_replay_that_says_nothing_changes_nothing(values):
    assert settled(**values) == FINDING


def test_what_is_a_mistake_only_where_it_costs_time_is_dismissed_where_it_costs_none():
    assert settled(settle=priced_or_dismissed).proof == "replayed"
    assert settled(0.05, 0.15, settle=priced_or_dismissed) is None, "one percent"
    assert settled(-3.0, -1.0, settle=priced_or_dismissed) is None, "slower"
    for low, high in ((-1.0, 3.0), (-2.0, 2.0)):
        vague = settled(low, high, settle=priced_or_dismissed)
        assert vague.proof == "suspected" and vague.price is None
    assert settled(applied=0, settle=priced_or_dismissed) == FINDING
    assert settled(trouble="rank 0 raised", settle=priced_or_dismissed).proof == "suspected"


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
