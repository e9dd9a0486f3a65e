"""Thousands of variants at once give what the event simulation gives for each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.predict.tape import Compute, Issue, Tape, Wait
from scalewise.predict.timeline import Sharing, simulate
from scalewise.predict.timeline_batch import steps_seconds

durations = st.floats(0, 0.1)


@st.composite
def tapes(draw):
    """Any order of work, messages and waits; a wait may be for a message that is through or was never sent."""
    entries: list[object] = []
    count = 0
    for kind in draw(st.lists(st.sampled_from(["compute", "issue", "wait"]), max_size=20)):
        if kind == "compute":
            entries.append(Compute(draw(durations), draw(st.sampled_from(["forward", "backward", "optimizer"]))))
        elif kind == "issue":
            entries.append(Issue(count, "all_reduce", draw(st.floats(0, 50)), 0))
            count += 1
        elif count:
            entries.append(Wait(draw(st.integers(0, count - 1))))
    return Tape(tuple(entries), 2, 0, None)


sharings = st.builds(Sharing, work=st.floats(0, 1), drag=st.floats(0, 2), spared_seconds=st.floats(0, 0.05))


@given(tapes(), sharings, st.lists(st.floats(0, 4), max_size=3))
def test_each_variant_is_the_event_simulation_of_it(tape, sharing, rates):
    rates = [1.0, *rates]
    seconds = np.array([[rate * 1e-3 * one.size_bytes for rate in rates] for one in tape.messages])
    seconds = seconds.reshape(len(tape.messages), len(rates))
    slower = {"forward": np.array(rates)}
    found = steps_seconds(tape, seconds, slower, sharing)
    for column, rate in enumerate(rates):
        one = tape.scaled({"forward": rate})
        expected = simulate(one, lambda issue, rate=rate: rate * 1e-3 * issue.size_bytes, sharing).step_seconds
        assert found[column] == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_a_step_without_messages_is_its_computing():
    tape = Tape((Compute(1.0, "forward"), Compute(2.0, "optimizer")), 2, 0, None)
    assert steps_seconds(tape, np.zeros((0, 2))).tolist() == [3.0, 3.0]
