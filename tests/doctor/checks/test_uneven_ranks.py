"""Tests of the check for ranks with different numbers of batches."""

import pytest
from case_factory import Sheet, make_case
from data_sheets import batches_of, feed, loader_of, two
from hypothesis import given
from hypothesis import strategies as st

from factories import make_outcome
from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.uneven_ranks import examine
from scalewise.records.notes import CollectiveNote

HUNG = make_outcome("hung", "No rank moved for 3 s.")


def rank(*lengths, ends=True):
    sheet = loader_of(Sheet())
    for number, length in enumerate(lengths):
        feed(sheet, batches_of(list(range(4 * length))), ends=ends or number + 1 < len(lengths))
    return sheet


def test_a_rank_that_had_more_batches_waits_for_one_that_is_through():
    (finding,) = examine(two(rank(16), rank(17, ends=False), outcome=HUNG))
    assert finding.severity == "wrong" and finding.proof == "observed"
    assert "rank 0 16 batches, rank 1 at least 17 batches" in finding.sentence
    assert "rank 0 16, rank 1 17" in finding.evidence[0]
    assert finding.price.value == 1
    assert "drop_last=True" in finding.fix and "Join" in finding.fix


def test_the_first_epoch_that_differs_is_named():
    (finding,) = examine(two(rank(5, 5), rank(5, 7), outcome=HUNG))
    assert "epoch 1: rank 0 5 batches, rank 1 7 batches" in finding.sentence


def test_equal_numbers_are_right_however_the_run_ended():
    assert examine(two(rank(16), rank(16), outcome=HUNG)) == ()


def test_a_rank_that_was_stopped_in_the_middle_had_not_come_to_its_end():
    assert examine(two(rank(9, ends=False), rank(10, ends=False), outcome=make_outcome("raised"))) == ()


def test_ranks_that_count_steps_and_begin_anew_are_right():
    assert examine(two(rank(5, 5, 2, ends=False), rank(8, 4, ends=False))) == ()


def test_a_run_that_finished_with_different_numbers_of_steps_went_wrong_unseen():
    (finding,) = examine(two(rank(6), rank(7)))
    assert "rank 1 7 batches" in finding.sentence


def test_a_run_that_was_ended_after_enough_steps_says_nothing():
    assert examine(two(rank(6), rank(7, ends=False), enough_steps=6)) == ()


def test_join_keeps_uneven_ranks_together():
    def joined(length):
        sheet = loader_of(Sheet()).epoch()
        for _ in range(length):
            sheet.batch().add(CollectiveNote, line="loss = criterion(model(x), y)", size_bytes=4, waits=False)
            sheet.forward().backward().step()
        return sheet.exhausted()

    assert examine(two(joined(5), joined(7))) == ()


def test_without_a_loader_it_abstains():
    with pytest.raises(Abstain, match="DataLoader"):
        examine(make_case(Sheet().windows(4, batch=False), ranks=2))
    with pytest.raises(Abstain, match="average"):
        examine(make_case(rank(4), ranks=2, wrapped=False))


@given(st.integers(1, 6), st.integers(1, 6))
def test_it_speaks_exactly_when_the_numbers_differ(one, other):
    found = examine(two(rank(one), rank(other), outcome=HUNG))
    assert bool(found) == (one != other)
