"""Tests of the equal-work guard."""

from dataclasses import replace

import numpy as np
import pytest

from factories import make_estimate, make_run
from scalewise.analysis.series import series
from scalewise.analysis.work import drift_of, equal_work, told_scaling, with_drift, work_of
from scalewise.plan.words import parse_changes


def work(**changes):
    run = make_run([0.001] * 20, **changes)
    return work_of(run, series(run))


def test_equal_global_batches_of_one_model_are_strong_scaling():
    one, two = work(ranks=1), work(ranks=2)
    assert told_scaling(one, two) == "strong"
    verdict = equal_work(one, two)
    assert (verdict.allowed, verdict.evidence, verdict.reasons) == (True, "seen", ())


def test_equal_batches_per_rank_are_weak_scaling_and_never_strong():
    one, two = work(ranks=1, samples_in_all=64), work(ranks=2, samples_in_all=128)
    assert told_scaling(one, two) == "weak"
    assert equal_work(one, two, "weak").allowed
    verdict = equal_work(one, two, "strong")
    assert verdict.reasons == ("samples per step over all ranks differ (64 and 128)",)


def test_batches_equal_in_neither_way_are_no_scaling():
    assert told_scaling(work(ranks=1, samples_in_all=64), work(ranks=2, samples_in_all=96)) is None


@pytest.mark.parametrize(
    ("changes", "reason", "name"),
    [
        ({"model": {"parameters": 2000}}, "parameters differ (1,000 and 2,000)", "model"),
        ({"model": {"shapes_digest": "ffff"}}, "shapes of the parameters differ (abcd and ffff)", "model"),
        ({"step": {"autocast": "bfloat16"}}, "precision differ (float32 and float32, autocast bfloat16)", "precision"),
        ({"model": {"dtypes": ("bfloat16",)}}, "precision differ (float32 and bfloat16)", "precision"),
        ({"model": {"optimizers": ("Adam",)}}, "optimizers differ (SGD and Adam)", "optimizers"),
        (
            {"changes": parse_changes("remove_communication")},
            "changes differ (none and remove communication)",
            "changes",
        ),
        ({"samples_in_all": 128}, "samples per step over all ranks differ (64 and 128)", "samples"),
    ],
)
def test_unequal_work_is_refused_with_the_reason_unless_it_is_the_question(changes, reason, name):
    verdict = equal_work(work(), work(**changes))
    assert (verdict.allowed, verdict.reasons) == (False, (reason,))
    assert equal_work(work(), work(**changes), allow=(name,)).allowed


def test_every_difference_is_named_at_once():
    other = work(model={"parameters": 7, "optimizers": ("Adam",)}, samples_in_all=1)
    assert len(equal_work(work(), other).reasons) == 3


def test_micro_batches_do_not_matter_when_the_samples_are_the_same():
    assert equal_work(work(), work(step={"micro_batches": 4})).allowed


def test_unseen_samples_are_believed_for_the_same_command_on_as_many_ranks():
    one = work(samples_in_all=None)
    verdict = equal_work(one, one)
    assert (verdict.allowed, verdict.evidence) == (True, "same command")
    assert not equal_work(one, replace(one, command=("other",))).allowed


def test_unseen_samples_over_different_ranks_are_believed_only_when_the_suite_declares_them():
    one, two = work(samples_in_all=None), work(ranks=2, samples_in_all=None)
    assert equal_work(one, two).reasons == ("cannot verify equal work: samples per step could not be seen",)
    assert equal_work(one, two, declared=True).evidence == "declared"
    assert not equal_work(one, replace(two, command=("other",)), declared=True).allowed
    assert told_scaling(one, two) is None


def steps_of(*milliseconds):
    return [make_estimate(value / 1e3, value / 1e3, value / 1e3, positive=True) for value in milliseconds]


def widened(found, steps):
    return with_drift(found, drift_of(steps), len(steps))


def test_an_interval_that_promises_more_than_the_experiments_show_is_widened_and_says_so():
    steps = steps_of(20, 23, 26, 29)
    narrow = make_estimate(0.020, 0.0198, 0.0202, positive=True)
    wide = widened(narrow, steps)
    assert wide.low < 0.0198 and wide.high > 0.0202 and wide.value == 0.020 and wide.level == narrow.level
    assert wide.method.endswith("widened by the spread between 4 experiments with the same work")
    assert widened(make_estimate(0.020, 0.0198, 0.0202, 0.98, positive=True), steps).high > wide.high


def test_what_their_own_intervals_explain_is_no_drift_and_two_experiments_tell_of_none():
    found = make_estimate(0.020, 0.0198, 0.0202, positive=True)
    assert widened(found, steps_of(20, 24)) is found
    wide = [make_estimate(value, value / 1.3, value * 1.3, positive=True) for value in (1.0, 1.1, 1.2, 1.05)]
    assert drift_of(wide) == 0.0
    narrow = [make_estimate(value, value / 1.01, value * 1.01, positive=True) for value in (1.0, 1.1, 1.2, 1.05)]
    assert 0.06 < drift_of(narrow) < 0.08


def test_widened_intervals_hold_another_experiment_s_step():
    """Experiments differ by 8 %, each one's own interval promises 2 %."""
    random = np.random.default_rng(3)
    held = []
    for _ in range(150):
        steps = 20 * np.exp(0.08 * random.normal(size=7))
        narrow = make_estimate(steps[0] / 1e3, steps[0] / 1.02e3, steps[0] * 1.02 / 1e3, positive=True)
        one, true = widened(narrow, steps_of(*steps[:6])), 0.020
        held.append(one.low <= true <= one.high)
    assert np.mean(held) >= 0.9
