"""Tests of what is said while a campaign runs."""

from dataclasses import replace

from factories import make_outcome, make_spec
from scalewise.console.output import Output
from scalewise.console.terminal_reporter import Progress, failure_lines
from scalewise.records.outcome import RankEnd
from scalewise.records.pulse import Pulse


def test_away_from_a_terminal_each_run_is_one_line_on_stderr(capsys):
    with Progress(Output()) as progress:
        progress.started(0, 2, make_spec())
        progress.pulses(make_spec(), (Pulse(1, 3, "backward", 0, 7),), 1.0)
        progress.ended(0, 2, make_spec(), make_outcome())
        progress.skipped(1, 2, make_spec(2), make_outcome())
    captured = capsys.readouterr()

    assert captured.out == ""
    assert captured.err.splitlines() == [
        "[1/2] exp-ranks1-r0: finished, 1.0 s",
        "[2/2] exp-ranks2-r0: made before (finished)",
    ]


def test_a_failure_made_before_is_told_again_with_the_way_to_repeat_it(capsys):
    Progress(Output()).skipped(0, 1, make_spec(), make_outcome("raised", "rank 0 of 1 raised ValueError: no"))

    assert capsys.readouterr().err.splitlines() == [
        "[1/1] exp-ranks1-r0: made before (raised): rank 0 of 1 raised ValueError: no",
        "    to make it anew, add: --again",
    ]


def test_quiet_says_nothing(capsys):
    with Progress(Output(quiet=True)) as progress:
        progress.ended(0, 1, make_spec(), make_outcome())

    assert capsys.readouterr() == ("", "")


def test_a_failure_shows_the_last_words_of_the_rank_to_blame_and_where_all_stood():
    ends = (
        RankEnd(0, None, None, 1.0, "in a collective", ("peer gone",), ("all_reduce at train.py:7",)),
        RankEnd(1, None, None, 1.0, "own code", ("ValueError: no",), ("sleep at train.py:9",)),
    )
    outcome = replace(
        make_outcome("hung"), first_failed_rank=1, ranks=ends, hint="read the stack", logs=("rank1.stderr.log",)
    )
    lines = failure_lines(outcome)

    assert lines[0] == "rank 1 | ValueError: no"
    assert "rank 0 stood in (in a collective):" in lines and "  all_reduce at train.py:7" in lines
    assert lines[-2:] == ["read the stack", "logs: rank1.stderr.log"]
