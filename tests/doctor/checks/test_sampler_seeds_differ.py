"""Tests of the check for samplers that shuffle differently on each rank."""

import pytest
from case_factory import Sheet
from data_sheets import batches_of, feed, loader_of, sampled, two
from hypothesis import given
from hypothesis import strategies as st

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.sampler_seeds_differ import examine


def rank(number, *seeds, numbers=None, epochs=None, **values):
    sheet = loader_of(Sheet(), sampler="DistributedSampler", knows_ranks=True, drawn=32, seed=seeds[0])
    for place, seed in enumerate(seeds):
        sampled(sheet, seed=seed, rank=number, epoch=epochs[place] if epochs else place, **values)
        feed(sheet, batches_of(list(numbers or range(32))))
    return sheet


def test_seeds_of_their_own_make_parts_overlap():
    (finding,) = examine(two(rank(0, 10, 10), rank(1, 11, 11, numbers=range(16, 48))))
    assert finding.severity == "wrong" and finding.ranks == (0, 1)
    assert "10 on rank 0, 11 on rank 1" in finding.sentence
    assert "met 16 same rows" in finding.evidence[1]
    assert finding.price.value == pytest.approx(0.25)
    assert "seed=10" in finding.fix


def test_epochs_of_their_own_do_the_same():
    (finding,) = examine(two(rank(0, 0, 0, epochs=[0, 1]), rank(1, 0, 0, epochs=[1, 2], numbers=range(16, 48))))
    assert "different epochs" in finding.sentence


def test_one_seed_is_right():
    assert examine(two(rank(0, 5, 5), rank(1, 5, 5))) == ()


def test_seeds_mean_nothing_without_shuffling():
    with pytest.raises(Abstain):
        examine(two(rank(0, 1, shuffle=False), rank(1, 2, shuffle=False)))


def test_rows_that_do_not_overlap_refute_it():
    assert examine(two(rank(0, 1, 1), rank(1, 2, 2, numbers=range(100, 132)))) == ()


def test_samplers_that_serve_the_same_rank_are_not_compared():
    assert examine(two(rank(0, 1, 1), rank(0, 2, 2))) == ()


def test_samplers_of_different_groups_are_not_compared():
    assert examine(two(rank(0, 1, 1, replicas=2), rank(1, 2, 2, replicas=4))) == ()


def test_one_rank_alone_says_nothing():
    with pytest.raises(Abstain):
        examine(two(rank(0, 1), loader_of(Sheet()).windows(3)))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=4), st.integers(0, 5))
def test_a_common_seed_is_never_blamed(seeds, shift):
    assert examine(two(rank(0, *seeds), rank(1, *seeds, numbers=range(shift, 32 + shift)))) == ()


def own(numbers, **changes):
    """A rank whose sampler is a class of the script's."""
    sheet = loader_of(Sheet(), **{"sampler": "Dealt", "drawn": 32, **changes})
    return feed(sheet, batches_of(list(numbers)))


def test_parts_of_a_sampler_of_the_scripts_own_that_overlap_are_suspected():
    (finding,) = examine(two(own(range(32)), own(range(16, 48))))
    assert finding.proof == "suspected" and finding.ranks == (0, 1)
    assert finding.sentence == "Dealt gives each rank 32 of 64 samples, but these parts overlap."
    assert "met 16 same rows" in finding.evidence[0]


@pytest.mark.parametrize(
    ("numbers", "changes"),
    [
        (range(32, 64), {}),
        (range(16, 48), {"sampler": "RandomSampler"}),
        (range(16, 48), {"drawn": 16}),
        ([*range(16, 32), *range(16, 32)], {}),
        ([*range(30, 62)], {}),
    ],
    ids=["disjoint", "drawn at random", "no share", "repeated", "hardly any"],
)
def test_parts_that_do_not_overlap_or_are_no_parts_say_nothing(numbers, changes):
    with pytest.raises(Abstain):
        examine(two(own(range(32), **changes), own(numbers, **changes)))
