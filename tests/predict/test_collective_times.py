"""Collectives take as long as their algorithm needs hops and bytes."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.predict.collective_times import all_reduce, once_around, seconds, unmeasured
from scalewise.predict.link import Link, LinkCurve, Wire
from scalewise.records.collectives import KINDS

NVLINK = Wire(start_seconds=20e-6, hop_seconds=3e-6, bytes_per_second=300e9, handled_seconds_per_byte=1.8e-12)
ETHERNET = Wire(start_seconds=30e-6, hop_seconds=14e-6, bytes_per_second=25e9)
NODE = Link("node", NVLINK)
CLUSTER = Link("cluster", NVLINK, ETHERNET, ranks_per_node=8)
EXACT = Link("exact", Wire(1.0, 0.1, 1.0, 0.01))  # a second to begin, a tenth a hop, a byte a second
ANY_KIND = st.sampled_from(list(KINDS))
LINKS = st.sampled_from([replace(link, carrier=by) for link in (NODE, CLUSTER) for by in ("nccl", "gloo", "none")])
SIZES = st.floats(0, 1e11)
RANKS = st.integers(2, 20_000)


def test_a_large_all_reduce_sends_its_message_almost_twice():
    exact = Link("wire", Wire(0.0, 0.0, 1e9))
    assert all_reduce(exact, 1e9, 2) == pytest.approx(1.0)
    assert all_reduce(exact, 1e9, 4) == pytest.approx(1.5)
    assert all_reduce(exact, 1e9, 10_000) == pytest.approx(2.0, rel=1e-3)


def test_a_small_message_among_many_ranks_goes_along_a_tree():
    ring_alone = 2 * (896 * NVLINK.hop_seconds + 128 * ETHERNET.hop_seconds)
    assert all_reduce(CLUSTER, 8, 1024) < ring_alone / 10


def test_gloo_has_no_tree_and_inside_a_node_nccls_is_a_chain():
    assert all_reduce(replace(CLUSTER, carrier="gloo"), 8, 1024) > 10 * all_reduce(CLUSTER, 8, 1024)
    assert all_reduce(NODE, 8, 64) == pytest.approx(NVLINK.time(2 * 63, 2 * 8 * 63 / 64, 8))


def test_measured_all_reduces_hold_for_the_nodes_on_which_they_were_measured():
    def curve(ranks, nodes, slower):
        link = CLUSTER.for_group(ranks, nodes)
        return LinkCurve(
            ranks, (1e3, 1e6), tuple(slower * all_reduce(link, one, ranks) for one in (1e3, 1e6)), nodes=nodes
        )

    link = replace(CLUSTER, curves=(curve(8, 1, 2.0), curve(16, 2, 3.0), curve(8, 8, 5.0)))
    plain = partial(seconds, CLUSTER, "all_reduce", 1e6)
    known = partial(seconds, link, "all_reduce", 1e6)
    assert known(8) == pytest.approx(2 * plain(8))
    assert known(16) == pytest.approx(3 * plain(16))
    assert known(24) == pytest.approx(3 * plain(24))  # as the nearest on several nodes
    assert known(4) == plain(4)
    assert known(8, 8) == plain(8, 8)  # one of eight groups that share what leaves a node


@pytest.mark.parametrize(
    ("kind", "nccl", "gloo"),
    [
        ("all_reduce", 1 + 0.6 + 12 + 0.08, 1 + 0.6 + 12 + 0.08),  # 6 hops, 2 x 3/4 of 8 bytes
        ("all_gather", 1 + 0.3 + 6 + 0.04, 1 + 0.3 + 6 + 0.04),
        ("reduce_scatter", 1 + 0.3 + 6 + 0.04, 1 + 0.6 + 12 + 0.08),  # of torch over gloo: an all-reduce
        ("broadcast", 1 + 0.3 + 8 + 0.04, 1 + 0.2 + 16),  # piece behind piece; two levels, the whole message each
        ("reduce", 1 + 0.3 + 8 + 0.04, 1 + 0.6 + 12 + 0.08),
        ("all_to_all", 1 + 0.3 + 6 + 0.08, 1 + 0.3 + 6 + 0.08),
        ("send", 1 + 0.1 + 8, 1 + 0.1 + 8),
        ("barrier", 1 + 0.6, 1 + 0.2),
    ],
)
def test_among_four_ranks_every_kind_has_its_hops_and_bytes(kind, nccl, gloo):
    assert seconds(EXACT, kind, 8.0, 4) == pytest.approx(nccl)
    assert seconds(replace(EXACT, carrier="gloo"), kind, 8.0, 4) == pytest.approx(gloo)
    assert seconds(replace(EXACT, carrier="none"), kind, 8.0, 4) == pytest.approx(1 + 8)


def test_a_group_with_one_rank_in_each_node_goes_over_its_share_of_the_network():
    one_a_node = seconds(CLUSTER, "all_reduce", 1e8, 8, nodes=8)
    assert one_a_node == pytest.approx(2e8 * 7 / 8 / (25e9 / 8), rel=0.05)
    assert one_a_node > 50 * seconds(CLUSTER, "all_reduce", 1e8, 8, nodes=1)
    assert seconds(CLUSTER, "all_reduce", 1e8, 64, nodes=8) == seconds(CLUSTER, "all_reduce", 1e8, 64)


def test_a_kind_that_was_measured_takes_what_it_took_and_others_follow_all_reduces():
    reduces = LinkCurve(2, (1.0, 8.0), (4 * all_reduce(EXACT, 1.0, 2), 4 * all_reduce(EXACT, 8.0, 2)))
    gathers = LinkCurve(2, (1.0, 8.0), (7.0, 70.0), "all_gather")
    link = replace(EXACT, curves=(reduces, gathers))
    assert seconds(link, "all_gather", 8.0, 2) == pytest.approx(70.0)
    assert seconds(link, "all_reduce", 8.0, 2) == pytest.approx(4 * all_reduce(EXACT, 8.0, 2))
    assert seconds(link, "send", 8.0, 2) == pytest.approx(4 * seconds(EXACT, "send", 8.0, 2))
    longer = 70.0 / once_around(EXACT, 8.0, 2)  # among ranks that were not measured, too
    assert seconds(link, "all_gather", 8.0, 16) == pytest.approx(longer * once_around(EXACT, 8.0, 16))
    assert seconds(link, "all_reduce", 8.0, 16) == pytest.approx(all_reduce(EXACT, 8.0, 16))
    assert unmeasured(link, {"send", "all_gather", "all_reduce", "barrier"}) == ("send",)
    assert unmeasured(EXACT, {"send"}) == ()  # nothing was measured, and the link says what it rests on


def test_across_nodes_the_slower_wire_sets_the_pace():
    assert all_reduce(CLUSTER, 1e9, 8) < 0.02
    assert all_reduce(CLUSTER, 1e9, 16) == pytest.approx(2e9 * 15 / 16 / 25e9, rel=0.1)


@given(kind=ANY_KIND, size=SIZES)
def test_alone_nothing_takes_time(kind, size):
    assert seconds(NODE, kind, size, 1) == 0.0


@given(kind=ANY_KIND, size=SIZES, ranks=RANKS, link=LINKS)
def test_more_bytes_never_take_less_time(kind, size, ranks, link):
    assert seconds(link, kind, 2 * size + 1, ranks) >= seconds(link, kind, size, ranks) > 0


@given(size=SIZES, ranks=RANKS, link=st.sampled_from([NODE, CLUSTER]))
def test_an_all_reduce_is_no_slower_than_scattering_and_gathering(size, ranks, link):
    both = seconds(link, "reduce_scatter", size, ranks) + seconds(link, "all_gather", size, ranks)
    assert all_reduce(link, size, ranks) <= both * (1 + 1e-9)


@given(size=SIZES, ranks=RANKS)
def test_a_faster_wire_is_never_slower(size, ranks):
    faster = Link("faster", NVLINK, Wire(30e-6, 14e-6, 50e9), ranks_per_node=8)
    assert all_reduce(faster, size, ranks) <= all_reduce(CLUSTER, size, ranks)
