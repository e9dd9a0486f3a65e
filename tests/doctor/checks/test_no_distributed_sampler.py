"""Tests of the check for ranks that each draw the whole dataset."""

import contextlib
import random

import pytest
from case_factory import Sheet
from data_sheets import LINE, batches_of, feed, loader_of, replay, two
from hypothesis import given
from hypothesis import strategies as st

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.no_distributed_sampler import examine, settle


def order(seed, numbers=range(64)):
    shuffled = list(numbers)
    random.Random(seed).shuffle(shuffled)
    return batches_of(shuffled)


def whole(seed, **loader):
    return feed(loader_of(Sheet(), **loader), order(seed))


def test_two_orders_of_one_dataset_are_the_whole_dataset_twice():
    (finding,) = examine(two(whole(1), whole(2)))
    assert finding.severity == "wrong" and finding.proof == "observed"
    assert "all 64 samples" in finding.sentence and "2 times" in finding.sentence
    assert finding.where.text == LINE
    assert finding.price.value == 0.5
    assert "64 same rows" in finding.evidence[0]


def test_datasets_that_were_split_before_share_no_rows():
    one, other = (feed(loader_of(Sheet()), order(1, numbers)) for numbers in (range(64), range(64, 128)))
    with pytest.raises(Abstain, match="no row is recognised"):
        examine(two(one, other))


def test_parts_of_different_size_are_parts():
    one = feed(loader_of(Sheet()), order(1))
    other = feed(loader_of(Sheet(), samples=60, drawn=60), order(1, range(64, 124)))
    assert examine(two(one, other)) == ()


def test_a_sampler_that_knows_of_ranks_is_right():
    assert examine(two(whole(1, knows_ranks=True), whole(2, knows_ranks=True))) == ()


def test_a_sampler_that_draws_less_than_there_is_is_right():
    assert examine(two(whole(1, drawn=32), whole(2, drawn=32))) == ()


def test_drawing_with_replacement_is_meant_so():
    def drawn(seed):
        numbers = random.Random(seed).choices(range(64), k=64)
        return feed(loader_of(Sheet(), sampler="WeightedRandomSampler"), batches_of(numbers))

    assert examine(two(drawn(1), drawn(2))) == ()


def test_the_same_batches_are_said_by_another_check():
    assert examine(two(whole(1), whole(1))) == ()


def test_rows_of_a_later_epoch_are_no_evidence():
    one = feed(feed(loader_of(Sheet()), order(1, range(32))), order(2, range(32, 64)))
    other = feed(feed(loader_of(Sheet()), order(3, range(32, 64))), order(4, range(32)))
    with pytest.raises(Abstain, match="no row is recognised"):
        examine(two(one, other))


def test_too_few_rows_say_nothing():
    one, other = (feed(loader_of(Sheet(), samples=10**6, drawn=10**6), order(seed)) for seed in (1, 2))
    with pytest.raises(Abstain, match="too few rows"):
        examine(two(one, other))


def test_a_stream_that_every_rank_reads_is_found_by_its_rows():
    def stream(seed):
        return whole(seed, iterable=True, samples=None, drawn=None)

    (finding,) = examine(two(stream(1), stream(2)))
    assert "whole stream" in finding.sentence and "islice" in finding.fix and finding.change is None


def test_a_replay_with_sharded_data_proves_it():
    plain = two(whole(1), whole(2))
    (finding,) = examine(plain)
    halves = [feed(loader_of(Sheet()), order(1, numbers)) for numbers in (range(32), range(32, 64))]
    settled = settle(plain, finding, replay("shard_data", plain, two(*halves)))
    assert settled.proof == "replayed" and "16 batches an epoch become 8" in settled.evidence[-1]
    assert settle(plain, finding, replay("shard_data", plain, plain)) == finding
    assert settle(plain, finding, replay("shard_data", plain, two(*halves), trouble="it hung")) == finding


@given(st.integers(0, 60), st.integers(0, 1000))
def test_disjoint_parts_are_never_blamed(cut, seed):
    size = 64
    one, other = list(range(cut + 4)), list(range(cut + 4, cut + 4 + size))
    left = feed(loader_of(Sheet(), samples=len(one), drawn=len(one)), order(seed, one))
    right = feed(loader_of(Sheet(), samples=size, drawn=size), order(seed + 1, other))
    with contextlib.suppress(Abstain):
        assert examine(two(left, right)) == ()
