"""Tests of ranks that have no samples at all beside ranks that have some."""

from scalewise.predict.rank_differences import RankWork, differences

SENT = (("all_reduce", 64, 8),)


def test_a_rank_without_samples_differs_from_one_that_has_some():
    (said,) = differences((RankWork(0, SENT, 8.0), RankWork(63, SENT, 0.0)))
    assert said.startswith("ranks 0 and 63 train on 8 and 0 samples a step")
    (said,) = differences((RankWork(0, SENT, 0.0), RankWork(63, SENT, 8.0)))
    assert "train on 0 and 8 samples" in said


def test_ranks_that_both_have_none_and_ranks_of_which_nobody_knows_do_not_differ():
    assert differences((RankWork(0, SENT, 0.0), RankWork(1, SENT, 0.0))) == ()
    assert differences((RankWork(0, SENT, None), RankWork(1, SENT, 0.0))) == ()
