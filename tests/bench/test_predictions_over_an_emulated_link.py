"""A step over an emulated link: its own time where it is the longer one, the real message's where that is."""

import pytest
from bench.emulated_link import emulated_link, with_real_messages
from hypothesis import given
from hypothesis import strategies as st

from scalewise.predict.collective_times import seconds
from scalewise.predict.prediction import predict
from scalewise.predict.rehearsed import RehearsedRank
from scalewise.predict.tape import Compute, Issue, Tape, Wait
from scalewise.records.collectives import KINDS


def _rehearsed(*entries):
    return RehearsedRank(2, 0, 2, "cpu", (Tape(tuple(entries), 2, 0, 4.0),), 0.0, None)


STEP = _rehearsed(
    Compute(1.0, "forward"),
    Compute(1.0, "backward"),
    Issue(0, "all_reduce", 1e9, 2),
    Compute(1.0, "backward"),
    Issue(1, "all_reduce", 1e9, 2),
    Wait(0),
    Wait(1),
    Compute(0.5, "optimizer"),
)


@given(
    kind=st.sampled_from(list(KINDS)),
    ranks=st.integers(2, 20_000),
    size=st.floats(0, 1e12),
    latency=st.floats(0, 10),
    rate=st.floats(1e3, 1e13),
)
def test_a_message_takes_latency_and_bytes_at_the_rate_whatever_its_kind(kind, ranks, size, latency, rate):
    assert seconds(emulated_link(latency, rate), kind, size, ranks) == pytest.approx(latency + size / rate)


def test_work_for_a_message_delays_computing_and_is_hidden_where_computing_waits():
    slow = emulated_link(0.0, 0.5e9)  # 2 s a message
    assert predict(STEP, slow).step.value == pytest.approx(2 + 2 + 2 + 0.5)
    # Of the first message 0.4 s delay the second one's readiness, which then still waits for the link.
    assert predict(with_real_messages(STEP, lambda issue: 0.4), slow).step.value == pytest.approx(2 + 2 + 2 + 0.5)
    quick = emulated_link(0.0, 2e9)  # 0.5 s a message
    assert predict(with_real_messages(STEP, lambda issue: 0.4), quick).step.value == pytest.approx(3.4 + 0.5 + 0.5)


def test_a_real_message_that_is_slower_than_the_link_is_waited_for():
    quick = emulated_link(0.0, 1e12)
    assert predict(with_real_messages(STEP, lambda issue: 0.4), quick).step.value == pytest.approx(3 + 0.8 + 0.5)
