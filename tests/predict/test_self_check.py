"""Tests of what a check tells of the model, and of ranks that do different things."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_estimate, make_outcome, make_run, noisy
from scalewise.analysis.series import series
from scalewise.predict.answer import Checked
from scalewise.predict.prediction import LEVEL, QUANTILE
from scalewise.predict.rank_differences import differences, work_by_rank
from scalewise.predict.seen_errors import UNCHECKED
from scalewise.predict.self_check import measured, model_error, model_spread
from scalewise.records.rehearsal import TapeRow
from scalewise.records.spec import Rehearsed


def checked(ratio: float) -> Checked:
    measured_step = make_estimate(1.0, 0.99, 1.01, positive=True)
    return Checked(2, make_estimate(ratio, 0.9 * ratio, 1.1 * ratio), measured_step)


def test_without_a_check_the_error_is_the_usual_one():
    assert model_spread(()) == pytest.approx(UNCHECKED)


@given(st.floats(0.5, 2.0))
def test_a_worse_check_makes_less_sure(ratio):
    assert model_spread([ratio]) <= model_spread([ratio, 3.0])


def test_one_lucky_check_makes_nobody_sure():
    assert model_spread([1.0]) > UNCHECKED / 2


def test_without_a_check_nothing_is_shifted():
    error = model_error(())
    assert error.shift == 0.0 and error.spread == pytest.approx(UNCHECKED)


@given(st.floats(0.5, 2.0))
def test_a_check_shifts_towards_what_was_measured_but_not_all_the_way_and_widens_by_the_rest(ratio):
    error, before = model_error([checked(ratio)]), log(ratio)
    assert 0 <= error.shift / before < 1 if before else error.shift == 0
    assert error.spread <= model_spread([ratio])
    assert model_error([checked(ratio)] * 4).shift / before > error.shift / before if before else True


def test_a_check_that_was_measured_badly_shifts_less():
    vague = replace(checked(1.2), measured=make_estimate(1.0, 0.7, 1.4, positive=True))
    once = replace(checked(1.2), measured=replace(checked(1.2).measured, runs=1))
    often = replace(checked(1.2), measured=replace(checked(1.2).measured, runs=3))
    shifts = [model_error([one]).shift for one in (vague, once, often)]
    assert shifts == sorted(shifts) and shifts[0] < 0.5 * shifts[2]


@pytest.mark.parametrize("lasting", [0.0, 0.045, 0.1])
@pytest.mark.parametrize("count", [1, 3])
def test_intervals_after_a_check_hold_as_often_as_they_say_whether_errors_last_or_not(lasting, count):
    """Scripts differ by a lasting error; every check and the step that is predicted differ by chance, 4 % of it."""
    random = np.random.default_rng(17)
    held = closer = 0
    trials = 3000
    for _ in range(trials):
        bias = lasting * random.normal()
        found = model_error([checked(exp(bias + 0.04 * random.normal())) for _ in range(count)])
        error = bias + 0.04 * random.normal()
        held += abs(error - found.shift) <= QUANTILE * found.spread
        closer += abs(error - found.shift) <= abs(error)
    assert 0.85 <= held / trials <= 0.95
    assert lasting < 0.1 or closer / trials > 0.65, "a lasting error is taken out"


def test_measured_steps_have_the_level_of_the_predictions_beside_them():
    """They were once shown with their 95 % interval and called 90 %."""
    run = make_run(noisy(60, 0.01, 4), ranks=2)
    found, usual = measured(run).step, series(run).median()
    assert found.level == LEVEL == 0.90 and usual.level == 0.95
    assert usual.low < found.low < found.value < found.high < usual.high
    assert measured(run, loop=True).step.level == LEVEL


def test_a_check_says_whether_it_was_inside():
    assert checked(1.05).inside
    assert not checked(1.2).inside
    assert checked(1.2).ratio == pytest.approx(1.2)


def test_the_measured_step_is_that_of_the_slowest_rank():
    found = measured(make_run([[0.01] * 30, [0.02] * 30], ranks=2))
    assert found is not None
    assert found.step.value == pytest.approx(0.02)
    assert found.samples == 64


def test_of_the_whole_loop_the_mean_counts_with_what_lies_between_steps():
    run = make_run([[0.01, 0.01, 0.01, 0.05] * 10], ranks=1)
    found = measured(run, loop=True)
    assert found.step.value == pytest.approx(0.02 + 2e-6, rel=0.05)
    assert found.step.low < found.step.value < found.step.high
    assert measured(run).step.value == pytest.approx(0.01)


def test_a_run_that_failed_measures_nothing():
    assert measured(make_run([0.01] * 30, ranks=2, outcome=make_outcome("raised"))) is None


def rehearsal_of(*messages, samples=(8, 8)):
    run = make_run([0.01] * 6, ranks=len(messages), kind=Rehearsed(8, 4, 8))
    ranks = []
    for rank, sent, own in zip(run.ranks, messages, samples, strict=True):
        rows = tuple(TapeRow(step, (("end", -1, 10**7),), tuple(sent)) for step in range(6))
        steps = tuple(replace(row, samples=own) for row in rank.steps)
        ranks.append(replace(rank, rehearsal=rows, steps=steps))
    return replace(run, ranks=tuple(ranks))


ONE = [("all_reduce", 64, 8)]


def test_ranks_that_do_the_same_differ_in_nothing():
    assert differences(work_by_rank(rehearsal_of(ONE, ONE))) == ()


def test_ranks_that_send_different_messages_are_named():
    (said,) = differences(work_by_rank(rehearsal_of(ONE, [*ONE, ("broadcast", 8, 8)])))
    assert said.startswith(
        "ranks 4 and 5 send different messages (1 all_reduce, 64 bytes; 1 all_reduce and 1 broadcast"
    )


def test_ranks_with_different_batches_are_named():
    (said,) = differences(work_by_rank(rehearsal_of(ONE, ONE, samples=(8, 5))))
    assert "train on 8 and 5 samples" in said
