"""The step of N ranks is the tape laid over the link, with an interval that holds what is not known."""

from dataclasses import replace
from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.predict.collective_times import all_reduce
from scalewise.predict.link import Link, Wire
from scalewise.predict.prediction import LEVEL, QUANTILE, OnLink, Spread, predict, spread_of_errors, step_seconds
from scalewise.predict.tape import Compute, Issue, Tape, Wait, tape_of_steps
from scalewise.predict.timeline import Sharing
from taped_steps import QUICK, SLOW, ddp_tape, rehearsal

EXACT = Spread(compute=0.0)


def test_over_a_link_that_costs_nothing_a_step_is_its_computing():
    tape = ddp_tape()
    free = Link("free", Wire(0.0, 0.0, 1e30))
    found = predict(rehearsal(tape), free, spread=EXACT)
    assert found.step.value == pytest.approx(tape.compute_seconds)
    assert found.step.low == found.step.value == found.step.high
    assert found.bound == "computing"


def test_a_slow_link_bounds_the_step_by_its_messages():
    tape = ddp_tape(buckets=4, bucket_bytes=8 * 2**20, forward=1e-3)
    found = predict(rehearsal(tape), SLOW)
    carried = 4 * all_reduce(SLOW, 8 * 2**20, 8)
    assert found.step.value == pytest.approx(1e-3 + 2e-3 / 4 + carried + 2e-3, rel=0.03)
    assert found.bound == "communication"


def test_messages_of_nothing_are_bound_by_latency():
    found = predict(rehearsal(ddp_tape(buckets=64, bucket_bytes=8, forward=1e-5)), SLOW)
    assert found.bound == "latency"


def test_a_step_that_waits_for_its_data_is_bound_by_it():
    tape = Tape((Compute(0.09, "data"), Compute(0.01, "forward")), 8, 0, 32)
    assert predict(rehearsal(tape), QUICK).bound == "data"


def test_throughput_counts_the_samples_of_all_ranks():
    found = predict(rehearsal(ddp_tape(ranks=8, samples=32)), QUICK)
    assert found.samples == 256
    assert found.throughput == pytest.approx(256 / found.step.value)
    assert predict(rehearsal(ddp_tape(samples=None)), QUICK).throughput is None


def test_the_interval_of_pure_computing_is_that_of_computing():
    tape = Tape((Compute(0.1, "forward"),), 8, 0, 1)
    found = predict(rehearsal(tape), QUICK, spread=Spread(compute=0.03))
    assert log(found.step.high / found.step.value) == pytest.approx(QUANTILE * 0.03)
    assert found.step.value**2 == pytest.approx(found.step.low * found.step.high)


def test_guesses_of_the_link_and_what_the_rehearsal_leaves_out_stand_beside_the_number():
    guessing = replace(QUICK, guesses=("the latency is a guess",))
    tape = ddp_tape()
    waiting = replace(tape, entries=(Issue(9, "recv", 1.0, 8), Wait(9), *tape.entries))
    found = predict(rehearsal(waiting), guessing)
    assert found.guesses[0] == "the latency is a guess"
    assert found.guesses[1].startswith("waiting until another rank has something to send")


def test_where_some_steps_send_more_the_mean_counts_and_not_the_usual_step():
    usual, heavy = ddp_tape(buckets=1, bucket_bytes=1.0), ddp_tape(buckets=1, bucket_bytes=1e9)
    seldom = replace(rehearsal(usual), tapes=(tape_of_steps([usual, usual, usual, heavy]),), uneven=True)
    steps = [step_seconds(tape, SLOW, 8) for tape in (usual, heavy)]
    found = predict(seldom, SLOW)
    assert found.step.value == pytest.approx((3 * steps[0] + steps[1]) / 4)
    assert steps[1] > 10 * steps[0]
    assert found.timeline.exposed_seconds + found.timeline.compute_seconds == pytest.approx(found.step.value)
    assert found.bound == "communication"


def test_the_parts_that_are_told_are_those_of_a_step_as_long_as_the_one_predicted():
    found = predict(rehearsal(ddp_tape()), SLOW)
    assert found.timeline.step_seconds == pytest.approx(found.step.value)
    assert found.timeline.exposed_seconds <= found.step.value


def test_a_message_within_some_ranks_is_carried_among_those_only():
    message = Issue(0, "all_reduce", 1e6, 4)
    assert OnLink(SLOW, 64)(message) == all_reduce(SLOW, 1e6, 4)
    assert OnLink(SLOW, 64)(replace(message, ranks=0)) == all_reduce(SLOW, 1e6, 64)
    assert OnLink(SLOW, 64, factor=2.0)(message) == 2 * all_reduce(SLOW, 1e6, 4)


spreads = st.builds(Spread, compute=st.floats(0, 0.3), link=st.floats(0, 0.5), model=st.floats(0, 0.3))
tapes = st.builds(ddp_tape, ranks=st.integers(2, 4096), buckets=st.integers(1, 6), bucket_bytes=st.floats(1, 1e9))


@given(tapes, spreads, st.floats(0, 0.3))
def test_more_doubt_never_makes_an_interval_narrower(tape, spread, more):
    one = rehearsal(tape)
    narrow = predict(one, SLOW, spread=spread).step
    for wider in (
        replace(spread, compute=spread.compute + more),
        replace(spread, link=spread.link + more),
        replace(spread, model=spread.model + more),
    ):
        wide = predict(one, SLOW, spread=wider).step
        assert wide.low <= narrow.low * (1 + 1e-9)
        assert wide.high >= narrow.high * (1 - 1e-9)
        assert wide.value == narrow.value


def test_more_ranks_than_rehearsed_wait_for_the_slowest_of_as_many_steps():
    few = predict(rehearsal(ddp_tape(ranks=8)), SLOW, spread=EXACT)
    many = predict(rehearsal(ddp_tape(ranks=8), company=1), SLOW, spread=EXACT)
    computing = ddp_tape(ranks=8).compute_seconds
    assert many.step.value == pytest.approx(few.step.value + 0.02 * (computing - 1e-3), rel=0.01)
    assert many.timeline.step_seconds == pytest.approx(many.step.value)
    assert many.timeline.exposed_seconds > few.timeline.exposed_seconds


@given(tapes, st.floats(0, 3))
def test_shared_cores_never_make_a_step_shorter(tape, work):
    shared = step_seconds(tape, SLOW, tape.ranks, Sharing(work))
    assert shared >= step_seconds(tape, SLOW, tape.ranks) - 1e-9


def test_the_spread_of_errors_is_how_far_predictions_were_off_around_none():
    assert spread_of_errors([]) == 0.0
    assert spread_of_errors([1.0, 1.0]) == 0.0
    assert spread_of_errors([exp(0.1), exp(-0.1)]) == pytest.approx(0.1)
    assert spread_of_errors([1.2] * 5) == pytest.approx(log(1.2))  # an error in one direction is no less an error


def test_a_shift_moves_the_step_and_both_ends_alike_and_leaves_its_parts():
    one = rehearsal(ddp_tape())
    plain = predict(one, QUICK, spread=Spread(model=0.05))
    moved = predict(one, QUICK, spread=Spread(model=0.05, shift=0.1))
    for before, after in (("value", "value"), ("low", "low"), ("high", "high")):
        assert getattr(moved.step, after) == pytest.approx(exp(-0.1) * getattr(plain.step, before))
    assert moved.timeline == plain.timeline and moved.step.level == plain.step.level == LEVEL
