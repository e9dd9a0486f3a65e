"""Tests of the short texts that people type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.errors import BadRequest
from scalewise.plan.words import filled, intervention_text, parse_intervention, parse_ranks, placeholders
from scalewise.records.spec import Intervention


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
        ("remove_communication", (Intervention("remove_communication"),)),
        ("sleep_before_backward:0.01", (Intervention("sleep_before_backward", 0.01),)),
        ("slow_rank:0.02@0", (Intervention("slow_rank", 0.02, 0),)),
        ("emulate_link:1ms,1GB/s", (Intervention("emulate_link", 1e-3, None, 1e9),)),
        ("emulate_link: 20us, 10Gbit/s", (Intervention("emulate_link", 20e-6, None, 1.25e9),)),
        ("emulate_link:0s,1.5MB/s", (Intervention("emulate_link", 0.0, None, 1.5e6),)),
        ("workers:0", (Intervention("workers"),)),
        ("workers:4", (Intervention("workers", count=4),)),
        (
            "remove_communication + slow_rank:2e-2@3",
            (Intervention("remove_communication"), Intervention("slow_rank", 0.02, 3)),
        ),
    ],
)
def test_interventions_are_read(text, expected):
    assert parse_intervention(text) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("slowrank:1@0", "did you mean 'slow_rank'?"),
        ("quux", "'quux' is not an intervention."),
        ("slow_rank:0.02", "lacks its rank"),
        ("slow_rank@1", "lacks its seconds"),
        ("slow_rank:-1@0", "'-1' is not a number of seconds"),
        ("slow_rank:nan@0", "'nan' is not a number of seconds"),
        ("slow_rank:1@x", "'x' is not a rank"),
        ("sleep_before_backward", "lacks its seconds"),
        ("sleep_before_backward:0.01@1", "takes no rank"),
        ("remove_communication:3", "takes no seconds"),
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
        ("workers", "'' is not a number of workers"),
        ("workers:-1", "'-1' is not a number of workers"),
        ("workers:257", "'257' is not a number of workers from 0 to 256"),
        ("workers:2@1", "takes no rank"),
        ("none+slow_rank:1@0", "'none' is not an intervention"),
        ("", "is not an intervention"),
    ],
)
def test_bad_interventions_are_refused_with_the_way_to_write_them(text, part):
    with pytest.raises(BadRequest) as caught:
        parse_intervention(text)
    assert part in caught.value.sentence
    assert caught.value.hint


SECONDS = st.floats(min_value=1e-6, max_value=3600)
INTERVENTIONS = st.one_of(
    st.just(Intervention("remove_communication")),
    SECONDS.map(lambda seconds: Intervention("sleep_before_backward", seconds)),
    st.builds(Intervention, st.just("slow_rank"), SECONDS, st.integers(0, 1000)),
    st.builds(Intervention, st.just("emulate_link"), SECONDS, st.none(), st.floats(1, 1e15)),
)


@given(st.lists(INTERVENTIONS, max_size=3, unique_by=lambda one: one.kind).map(tuple))
def test_an_intervention_written_and_read_is_the_same(interventions):
    assert parse_intervention(intervention_text(interventions)) == interventions


def test_placeholders_are_filled_and_other_braces_are_left_alone():
    values = {"dim": 8, "amp": True}
    assert filled('--dim={dim} {amp} {{dim}} {"a": {"b": 1}} {}', values) == '--dim=8 true {dim} {"a": {"b": 1}} {}'
    assert placeholders("{a} {{b}} { c } {d}") == ("a", "d")
