"""Collectives take as long as their algorithm needs hops and bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.predict.collectives import SECONDS, all_gather, all_reduce, reduce_scatter, seconds
from scalewise.predict.link import Link, Wire

NVLINK = Wire(start_seconds=20e-6, hop_seconds=3e-6, bytes_per_second=300e9, handled_seconds_per_byte=1.8e-12)
ETHERNET = Wire(start_seconds=30e-6, hop_seconds=14e-6, bytes_per_second=25e9)
NODE = Link("node", NVLINK)
CLUSTER = Link("cluster", NVLINK, ETHERNET, ranks_per_node=8)
KINDS = st.sampled_from(sorted(SECONDS))
SIZES = st.floats(0, 1e11)
RANKS = st.integers(2, 20_000)


def test_a_large_all_reduce_sends_its_message_almost_twice():
    exact = Link("wire", Wire(0.0, 0.0, 1e9))
    assert all_reduce(exact, 1e9, 2) == pytest.approx(1.0)
    assert all_reduce(exact, 1e9, 4) == pytest.approx(1.5)
    assert all_reduce(exact, 1e9, 10_000) == pytest.approx(2.0, rel=1e-3)


def test_a_small_message_among_many_ranks_goes_along_a_tree():
    ring_alone = 2 * 1023 * NVLINK.hop_seconds
    assert all_reduce(NODE, 8, 1024) < ring_alone / 10


def test_across_nodes_the_slower_wire_sets_the_pace():
    assert all_reduce(CLUSTER, 1e9, 8) < 0.02
    assert all_reduce(CLUSTER, 1e9, 16) == pytest.approx(2e9 * 15 / 16 / 25e9, rel=0.1)


@given(kind=KINDS, size=SIZES)
def test_alone_nothing_takes_time(kind, size):
    assert seconds(NODE, kind, size, 1) == 0.0


@given(kind=KINDS, size=SIZES, ranks=RANKS, link=st.sampled_from([NODE, CLUSTER]))
def test_more_bytes_never_take_less_time(kind, size, ranks, link):
    assert seconds(link, kind, 2 * size + 1, ranks) >= seconds(link, kind, size, ranks) > 0


@given(size=SIZES, ranks=RANKS, link=st.sampled_from([NODE, CLUSTER]))
def test_an_all_reduce_is_no_slower_than_scattering_and_gathering(size, ranks, link):
    both = reduce_scatter(link, size, ranks) + all_gather(link, size, ranks)
    assert all_reduce(link, size, ranks) <= both * (1 + 1e-9)


@given(size=SIZES, ranks=RANKS)
def test_a_faster_wire_is_never_slower(size, ranks):
    faster = Link("faster", NVLINK, Wire(30e-6, 14e-6, 50e9), ranks_per_node=8)
    assert all_reduce(faster, size, ranks) <= all_reduce(CLUSTER, size, ranks)
