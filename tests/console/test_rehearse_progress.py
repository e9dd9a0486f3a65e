"""Tests of what is said while a script is rehearsed."""

from dataclasses import replace

from factories import make_outcome, make_spec
from scalewise.console.output import Output
from scalewise.console.terminal_reporter import RehearseProgress
from scalewise.records.outcome import Outcome
from scalewise.records.spec import Change, Rehearsed, RunSpec

LAST = replace(make_spec(2), kind=Rehearsed(8, 6, 8))
FAILED = make_outcome("raised", "rank 7 of 8 raised ValueError: last")


def said(capsys, spec: RunSpec, outcome: Outcome) -> list[str]:
    RehearseProgress(Output()).ended(0, 1, spec, outcome)
    return capsys.readouterr().err.splitlines()


def test_a_rehearsal_that_fails_is_told_with_how_it_ended(capsys):
    assert said(capsys, LAST, FAILED) == ["rehearsed ranks 6 to 7 of 8: rank 7 of 8 raised ValueError: last"]


def test_a_rehearsal_of_our_own_that_fails_is_not_shown_as_an_error_of_the_script(capsys):
    small = replace(LAST, changes=(Change("ddp_option", {"bucket_cap_mb": 1e-6}),))
    for spec in (small, replace(LAST, kind=Rehearsed(8, 6, 8, inspected=True))):
        (line,) = said(capsys, spec, FAILED)
        assert "ValueError" not in line
        assert "the advice goes without it" in line


def test_nobody_who_interrupts_a_rehearsal_is_told_that_it_continues(capsys):
    outcome = replace(make_outcome("interrupted"), hint="run the same command again to continue")
    assert said(capsys, make_spec(2), outcome) == []
