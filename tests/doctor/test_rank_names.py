"""Tests of the short texts that checks share."""

import pytest

from scalewise.doctor.rank_names import counted, named_ranks


@pytest.mark.parametrize(
    ("ranks", "text"), [((2,), "Rank 2"), ((0, 1), "Ranks 0 and 1"), ((0, 1, 3), "Ranks 0, 1 and 3")]
)
def test_ranks_are_listed_as_people_do(ranks, text):
    assert named_ranks(ranks) == text
    assert named_ranks(ranks, small=True) == text.lower()


@pytest.mark.parametrize(
    ("count", "thing", "text"), [(1, "batch", "1 batch"), (16, "batch", "16 batches"), (0, "GPU", "0 GPUs")]
)
def test_things_are_counted_in_the_plural(count, thing, text):
    assert counted(count, thing) == text
