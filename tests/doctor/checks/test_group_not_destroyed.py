"""Tests of the check for process groups that are left."""

import pytest
from case_factory import Sheet, make_case
from data_sheets import grouped, two

from factories import make_outcome
from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.group_not_destroyed import examine


def rank(*events):
    return grouped(Sheet(), *events[:1]).windows(3) if len(events) < 2 else grouped(Sheet().windows(3), *events)


def test_a_group_that_is_left_is_noted():
    (finding,) = examine(make_case(rank("init"), ranks=2))
    assert finding.severity == "note" and not finding.counts
    assert "Ranks 0 and 1" in finding.sentence
    assert finding.where.text == "dist.init_process_group()"


def test_one_rank_that_leaves_it_is_named():
    (finding,) = examine(two(rank("init", "destroy"), rank("init")))
    assert finding.ranks == (1,)


def test_a_destroyed_group_is_right():
    assert examine(make_case(rank("init", "destroy"), ranks=2)) == ()


def test_an_abort_at_exit_is_told():
    (finding,) = examine(make_case(rank("init"), ranks=2, outcome=make_outcome("aborted_at_exit", "It aborted.")))
    assert "aborted at exit" in finding.sentence and "It aborted." in finding.evidence[1]


@pytest.mark.parametrize("changes", [{"outcome": make_outcome("raised")}, {"unfinished": True}, {"enough_steps": 3}])
def test_a_rank_that_did_not_end_by_itself_had_no_chance(changes):
    with pytest.raises(Abstain, match="by themselves"):
        examine(make_case(rank("init"), ranks=2, **changes))


def test_no_group_says_nothing():
    with pytest.raises(Abstain, match="no process group"):
        examine(make_case(Sheet().windows(3), ranks=2))
