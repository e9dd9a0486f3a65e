"""Tests of the short texts that people type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.errors import BadRequest
from scalewise.plan.words import changes_text, filled, parse_changes, parse_ranks, placeholders
from scalewise.records.spec import Change


def test_ranks_are_read_in_the_order_given():
    assert parse_ranks("4, 1,2") == (4, 1, 2)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is empty"),
        (" , ", "is empty"),
        ("0", "0 is not a number of ranks"),
        ("1,-2", "-2 is not a number of ranks"),
        ("two", "'two' is not a whole number"),
        ("1.5", "'1.5' is not a whole number"),
        ("1,,2", "missing between the commas"),
        ("2,2", "names 2 more than once"),
        ("1025", "1025 ranks are more than the 1024"),
        ("9" * 500, "is not a whole number"),
        ("²", "is not a whole number"),
    ],
)
def test_bad_ranks_are_refused_in_one_sentence_with_a_hint(text, part):
    with pytest.raises(BadRequest) as caught:
        parse_ranks(text)
    assert part in caught.value.sentence
    assert caught.value.sentence.endswith(".") and "\n" not in caught.value.sentence
    assert caught.value.hint


@given(st.text(max_size=20))
def test_any_text_is_either_ranks_or_a_bad_request(text):
    try:
        assert all(1 <= count <= 1024 for count in parse_ranks(text))
    except BadRequest as error:
        assert error.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", ()),
        ("remove_communication", (Change("remove_communication"),)),
        ("sleep_before_backward:0.01", (Change("sleep_before_backward", {"seconds": 0.01}),)),
        ("slow_rank:0.02@0", (Change("slow_rank", {"seconds": 0.02, "rank": 0}),)),
        ("emulate_link:1ms,1GB/s", (Change("emulate_link", {"seconds": 1e-3, "bytes_per_second": 1e9}),)),
        ("emulate_link: 20us, 10Gbit/s", (Change("emulate_link", {"seconds": 20e-6, "bytes_per_second": 1.25e9}),)),
        ("emulate_link:0s,1.5MB/s", (Change("emulate_link", {"seconds": 0.0, "bytes_per_second": 1.5e6}),)),
        ("workers:0", (Change("workers", {"count": 0}),)),
        ("workers:4", (Change("workers", {"count": 4}),)),
        ("workers:count=4,loader=1", (Change("workers", {"count": 4, "loader": 1}),)),
        ("no_sync:4", (Change("no_sync", {"window": 4}),)),
        ("no_sync:window=4", (Change("no_sync", {"window": 4}),)),
        ("divide_loss:by=4", (Change("divide_loss", {"by": 4.0}),)),
        ("seldom_read:lines=12,15", (Change("seldom_read", {"lines": "12,15"}),)),
        ("tf32", (Change("tf32"),)),
        (
            "ddp_option:find_unused_parameters=False,bucket_cap_mb=25",
            (Change("ddp_option", {"find_unused_parameters": False, "bucket_cap_mb": 25}),),
        ),
        (
            "remove_communication + slow_rank:2e-2@3",
            (Change("remove_communication"), Change("slow_rank", {"seconds": 0.02, "rank": 3})),
        ),
    ],
)
def test_changes_are_read(text, expected):
    assert parse_changes(text) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("slowrank:1@0", "did you mean 'slow_rank'?"),
        ("quux", "'quux' is not a change."),
        ("slow_rank:0.02", "lacks its rank"),
        ("slow_rank@1", "lacks its seconds"),
        ("slow_rank:-1@0", "'-1' is not a number of seconds"),
        ("slow_rank:nan@0", "'nan' is not a number of seconds"),
        ("slow_rank:1@x", "'x' is not a rank"),
        ("sleep_before_backward", "lacks its seconds"),
        ("sleep_before_backward:0.01@1", "takes no rank"),
        ("remove_communication:3", "takes no value"),
        ("slow_rank:1@0+slow_rank:2@1", "twice"),
        ("emulate_link", "lacks its latency and rate"),
        ("emulate_link:1ms", "lacks its rate"),
        ("emulate_link:1,1GB/s", "'1' is not a latency"),
        ("emulate_link:-1ms,1GB/s", "'-1ms' is not a latency"),
        ("emulate_link:1ms,1GB", "'1GB' is not a rate"),
        ("emulate_link:1ms,0GB/s", "'0GB/s' is not a rate"),
        ("emulate_link:1ms,1e9TB/s", "'1e9TB/s' is not a rate"),
        ("emulate_link:1.2.3ms,1GB/s", "'1.2.3ms' is not a latency"),
        ("emulate_link:1ms,1GB/s@1", "takes no rank"),
        ("workers", "lacks its number of workers"),
        ("workers:-1", "'-1' is not a number of workers"),
        ("workers:257", "'257' is not a number of workers from 0 to 256"),
        ("workers:2@1", "takes no rank"),
        ("no_sync", "lacks its window"),
        ("no_sync:0", "'0' is not a whole number"),
        ("no_sync:2,3", "takes no further value"),
        ("no_sync:steps=3", "takes no steps"),
        ("divide_loss:by=inf", "'inf' is not a number"),
        ("ddp_option", "lacks its options"),
        ("tf32:1", "takes no value"),
        ("none+slow_rank:1@0", "'none' is not a change"),
        ("", "is not a change"),
    ],
)
def test_bad_changes_are_refused_with_the_way_to_write_them(text, part):
    with pytest.raises(BadRequest) as caught:
        parse_changes(text)
    assert part in caught.value.sentence
    assert caught.value.hint


SECONDS = st.floats(min_value=1e-6, max_value=3600)
CHANGES = st.one_of(
    st.just(Change("remove_communication")),
    SECONDS.map(lambda seconds: Change("sleep_before_backward", {"seconds": seconds})),
    st.builds(
        lambda seconds, rank: Change("slow_rank", {"seconds": seconds, "rank": rank}), SECONDS, st.integers(0, 99)
    ),
    st.builds(
        lambda seconds, rate: Change("emulate_link", {"seconds": seconds, "bytes_per_second": rate}),
        SECONDS,
        st.floats(1, 1e15),
    ),
    st.builds(lambda window: Change("no_sync", {"window": window}), st.integers(1, 1000)),
    st.builds(lambda by: Change("divide_loss", {"by": by}), st.floats(1e-3, 1e3)),
    st.just(Change("seldom_read", {"lines": "12,15"})),
    st.just(Change("workers", {"count": 4, "loader": 1})),
    st.just(Change("ddp_option", {"bucket_cap_mb": 1e-6, "find_unused_parameters": False})),
)


@given(st.lists(CHANGES, max_size=3, unique_by=lambda one: one.name).map(tuple))
def test_a_change_written_and_read_is_the_same(changes):
    assert parse_changes(changes_text(changes)) == changes


def test_placeholders_are_filled_and_other_braces_are_left_alone():
    values = {"dim": 8, "amp": True}
    assert filled('--dim={dim} {amp} {{dim}} {"a": {"b": 1}} {}', values) == '--dim=8 true {dim} {"a": {"b": 1}} {}'
    assert placeholders("{a} {{b}} { c } {d}") == ("a", "d")
