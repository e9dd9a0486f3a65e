"""Messages are laid on computing as DDP does it, and the laws of two lanes hold for any step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.predict.tape import Compute, Issue, Tape, Wait
from scalewise.predict.timeline import Sharing, simulate


def tape(*entries):
    return Tape(tuple(entries), ranks=2, rank=0, samples=None)


def ddp(*buckets_ms: float, between_ms: float = 1.0) -> Tape:
    """Forward of 5 ms, a bucket ready after each piece of backward, the optimizer of 1 ms waits for all."""
    entries: list[object] = [Compute(5e-3, "forward")]
    for number, _ in enumerate(buckets_ms):
        entries += [Compute(between_ms * 1e-3, "backward"), Issue(number, "all_reduce", buckets_ms[number], 0)]
    entries += [Wait(number) for number in range(len(buckets_ms))]
    return tape(*entries, Compute(1e-3, "optimizer"))


def by_size(issue: Issue) -> float:
    return issue.size_bytes * 1e-3


def test_only_the_last_bucket_is_exposed_when_the_link_is_quick():
    line = simulate(ddp(0.5, 0.5, 0.5), by_size)
    assert line.step_seconds == pytest.approx(9.5e-3)
    assert line.exposed_seconds == pytest.approx(0.5e-3)
    assert line.hidden_seconds == pytest.approx(1.0e-3)


def test_a_slow_link_carries_one_bucket_after_another():
    line = simulate(ddp(4.0, 4.0, 4.0), by_size)
    assert line.step_seconds == pytest.approx((6 + 12 + 1) * 1e-3)


def test_a_blocking_message_hides_behind_nothing():
    line = simulate(tape(Compute(1e-3), Issue(0, "barrier", 2.0, 0), Wait(0), Compute(1e-3)), by_size)
    assert line.step_seconds == pytest.approx(4e-3)
    assert line.exposed_seconds == pytest.approx(2e-3)


def test_a_message_that_is_all_work_hides_behind_nothing_on_shared_cores():
    line = simulate(ddp(0.5, 0.5, 0.5), by_size, Sharing(work=1.0))
    assert line.step_seconds == pytest.approx((9 + 1.5) * 1e-3)


def test_a_message_that_also_gets_in_the_way_of_computing_costs_more_than_itself():
    free = simulate(ddp(1.0, 1.0, between_ms=10.0), by_size)  # the first is hidden, the second waited for
    slowed = simulate(ddp(1.0, 1.0, between_ms=10.0), by_size, Sharing(work=1.5))
    assert slowed.step_seconds - free.step_seconds == pytest.approx(1.5e-3)
    assert slowed.slowed_seconds == pytest.approx(1.5e-3)


def test_a_message_that_begins_beside_another_is_spared_a_part():
    spared = Sharing(beside_seconds=-0.3e-3)
    assert simulate(ddp(4.0, 4.0, 4.0), by_size, spared).step_seconds == pytest.approx((6 + 12 - 0.6 + 1) * 1e-3)
    assert simulate(ddp(0.5, 0.5, 0.5), by_size, spared).step_seconds == pytest.approx(9.5e-3)  # none is beside another
    many = Sharing(beside_seconds=-1.0)
    assert simulate(ddp(4.0, 4.0, 4.0), by_size, many).step_seconds == pytest.approx((6 + 4 + 2 + 2 + 1) * 1e-3)


def test_messages_that_get_in_each_others_way_take_longer_unless_both_are_small():
    longer = Sharing(beside_seconds=2e-3, beside_bytes=1.0)
    assert simulate(ddp(4.0, 4.0), by_size, longer).step_seconds == pytest.approx((6 + 8 + 2 + 1) * 1e-3)
    assert simulate(ddp(4.0, 0.5), by_size, longer).step_seconds == pytest.approx((6 + 4.5 + 2 + 1) * 1e-3)
    assert simulate(ddp(0.5, 4.0), by_size, longer).step_seconds == pytest.approx((7 + 4 + 1) * 1e-3)  # one has ended
    small = simulate(ddp(0.9, 0.9, between_ms=0.5), by_size, longer)
    assert small.step_seconds == pytest.approx((5.5 + 0.9 + 0.9 + 1) * 1e-3)


durations = st.floats(0, 0.1)
sharings = st.builds(Sharing, work=st.floats(0, 3), beside_seconds=st.floats(-0.05, 0.05))


@st.composite
def steps(draw):
    """Any order of computing, messages and waits for messages that were issued."""
    entries: list[object] = []
    for number in range(draw(st.integers(0, 8))):
        entries += [Compute(draw(durations), "backward"), Issue(number, "all_reduce", draw(st.floats(0, 50)), 0)]
        if draw(st.booleans()):
            entries.append(Wait(draw(st.integers(0, number))))
    return tape(*entries, *(Wait(number) for number in range(8)), Compute(draw(durations), "optimizer"))


@given(steps(), sharings)
def test_a_step_takes_at_least_its_computing_and_at_most_everything_in_a_row(step, sharing):
    line = simulate(step, by_size, sharing)
    whole = line.compute_seconds + max(1.0, sharing.work) * line.message_seconds
    assert max(line.compute_seconds, line.message_seconds) <= line.step_seconds + 1e-9
    assert line.step_seconds <= whole + 1e-9


@given(steps(), sharings)
def test_what_a_step_takes_is_computing_standing_still_and_being_slowed(step, sharing):
    line = simulate(step, by_size, sharing)
    parts = line.compute_seconds + line.exposed_seconds + line.slowed_seconds
    assert line.step_seconds == pytest.approx(parts, abs=1e-9)


@given(steps(), sharings, st.floats(1, 10))
def test_a_slower_link_never_makes_a_step_shorter(step, sharing, factor):
    slower = simulate(step, lambda issue: factor * by_size(issue), sharing)
    assert slower.step_seconds >= simulate(step, by_size, sharing).step_seconds - 1e-9


@given(steps(), sharings)
def test_messages_that_take_no_time_cost_nothing(step, sharing):
    line = simulate(step, lambda issue: 0.0, sharing)
    assert line.step_seconds == pytest.approx(line.compute_seconds)
