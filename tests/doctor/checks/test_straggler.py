"""Tests of the check for a rank that the others wait for."""

import random

import pytest
from case_factory import Sheet, make_wrapper
from data_sheets import MILLISECOND, two
from hypothesis import given
from hypothesis import strategies as st

from factories import quiet_sample
from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.straggler import examine
from scalewise.records.notes import BackwardNote, BatchNote, ComputedNote, ForwardNote, StepNote

QUIET = (quiet_sample(),)
BUSY = (quiet_sample(foreign=0.6, pressure=0.8),)
STEP_MS = 30.0


def rank(steps=12, *, data=0.1, forward=2.0, compute=3.0, host=0.5, **wrapper):
    """Steps of one length: what a rank does not need itself, it waits for the other in backward."""
    sheet = Sheet().row(make_wrapper(**wrapper))
    at = 0.0

    def note(kind, milliseconds, **values):
        nonlocal at
        at += milliseconds
        sheet.add(kind, at_ns=int(at * MILLISECOND), **values)

    for number in range(steps):
        own = {name: value(number) if callable(value) else value for name, value in
               (("data", data), ("forward", forward), ("compute", compute), ("host", host))}  # fmt: skip
        note(BatchNote, own["data"], wait_ns=int(own["data"] * MILLISECOND))
        note(ForwardNote, own["forward"], duration_ns=int(own["forward"] * MILLISECOND))
        note(ComputedNote, own["compute"], duration_ns=int(own["compute"] * MILLISECOND))
        waits = max(STEP_MS - sum(own.values()), 0.0)
        note(BackwardNote, waits, duration_ns=int((waits + own["compute"]) * MILLISECOND))
        note(StepNote, own["host"], duration_ns=int(0.1 * MILLISECOND))
    return sheet


@pytest.mark.parametrize(
    ("slow", "cause", "line"),
    [
        ({"data": 20.0}, "waiting for its data", "for x, y in loader:"),
        ({"forward": 9.0, "compute": 16.0}, "more computing", "loss = criterion(model(x), y)"),
        ({"compute": 24.0}, "its backward pass", "loss.backward()"),
        ({"host": 20.0}, "own lines on the host", "optimizer.step()"),
    ],
)
def test_the_rank_and_its_cause_are_named(slow, cause, line):
    (finding,) = examine(two(rank(), rank(**slow), samples=QUIET))
    assert finding.severity == "slow" and finding.ranks == (1,)
    assert cause in finding.sentence and "Rank 1" in finding.sentence
    assert finding.where.text == line
    own = 5.6
    gap = sum({"data": 0.1, "forward": 2.0, "compute": 3.0, "host": 0.5, **slow}.values()) - own
    saved = gap / 2 if cause == "more computing" else gap  # what one rank has too much, two would have to share
    assert finding.price.value == pytest.approx(saved, rel=0.01)
    assert "Rank 0 waits" in finding.evidence[2]


def test_equal_ranks_are_right():
    assert examine(two(rank(), rank(), samples=QUIET)) == ()


def test_less_than_a_millisecond_does_not_matter():
    assert (
        examine(two(rank(host=0.2, forward=0.2, compute=0.2), rank(host=0.9, forward=0.2, compute=0.2), samples=QUIET))
        == ()
    )


def test_a_rank_that_is_behind_in_some_steps_only_is_no_straggler():
    assert examine(two(rank(), rank(host=lambda number: 20.0 if number % 2 else 0.5), samples=QUIET)) == ()


def test_nobody_waits_for_a_rank_in_a_loop_without_synchronisation():
    one, other = (
        rank(forward=forward, wrapper="DistributedDataParallel", ranks=(number,))
        for number, forward in enumerate((2.0, 20.0))
    )
    with pytest.raises(Abstain):
        examine(two(one, other, samples=QUIET))


def test_on_a_busy_machine_only_a_large_gap_counts():
    with pytest.raises(Abstain, match="other programs"):
        examine(two(rank(), rank(host=8.0), samples=BUSY))
    (finding,) = examine(two(rank(), rank(host=24.0), samples=BUSY))
    assert "quick steps" in finding.price.how


def test_on_a_busy_machine_the_quick_steps_are_compared():
    def held_up(number):
        return 0.5 if number % 3 else 25.0

    (finding,) = examine(two(rank(30, forward=held_up), rank(30, host=24.0), samples=BUSY))
    assert finding.ranks == (1,)
    with pytest.raises(Abstain, match="other programs"):
        examine(two(rank(30), rank(30, host=lambda number: 5.0 + held_up(number)), samples=BUSY))


def test_a_run_too_short_for_samples_is_held_for_busy():
    with pytest.raises(Abstain, match="too short"):
        examine(two(rank(), rank(host=8.0)))


def test_a_forward_pass_that_waits_for_buffers_of_rank_zero_is_not_its_own_time():
    buffers = {"buffer_bytes": 4096, "options": {"broadcast_buffers": True}}
    (finding,) = examine(two(rank(data=15.0, **buffers), rank(forward=16.9, **buffers), samples=QUIET))
    assert finding.ranks == (0,) and "waiting for its data" in finding.sentence


def test_on_a_busy_machine_more_steps_are_needed():
    with pytest.raises(Abstain, match="other programs"):
        examine(two(rank(9), rank(9, host=24.0), samples=BUSY))


def test_a_gap_that_lies_here_and_there_is_noise():
    def sometimes(turn):
        return lambda number: 9.0 if number % 3 == turn else 0.5

    noisy = rank(30, data=sometimes(0), host=sometimes(1), forward=sometimes(2), compute=0.5)
    assert examine(two(rank(30, forward=0.5, compute=0.5), noisy, samples=QUIET)) == ()


def test_too_few_steps_say_nothing():
    with pytest.raises(Abstain, match="6 settled steps"):
        examine(two(rank(5), rank(5), samples=QUIET))


@given(st.integers(0, 10**6))
def test_noise_makes_no_straggler(seed):
    chance = random.Random(seed)

    def jitter(number):
        return 0.5 + (6.0 if chance.random() < 0.3 else 0.0)

    try:
        assert examine(two(rank(40, host=jitter), rank(40, host=jitter), samples=QUIET)) == ()
    except Abstain:
        pytest.fail("the runs are long enough")
