"""Tests of comparing two arms, and simulations of how often it errs and what it can see."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from factories import make_outcome, make_run, make_suite, noisy, quiet_sample
from scalewise.analysis.comparison import COMPARE_LEVEL, compare_runs, compare_suites
from scalewise.analysis.estimate import run_median
from scalewise.analysis.ratio import Side, log_difference
from scalewise.errors import BadRequest

A = {"axes": {"arm": "a"}}
B = {"axes": {"arm": "b"}, "args": ("--batch", "64", "--fast")}


def pair(repeats, change=0.0, *, run_cv=0.028, seed=0, steps=60):
    """Interleaved repeats of A and B with the noise of CPU ranks."""
    a, b = [], []
    for repeat in range(repeats):
        first = noisy(steps, 0.005, seed + 2 * repeat, run_cv=run_cv)
        second = noisy(steps, 0.005 * (1 + change), seed + 2 * repeat + 1, run_cv=run_cv)
        a.append(make_run(first, repeat=repeat, at=1000.0 + 2 * repeat, **A))
        b.append(make_run(second, repeat=repeat, at=1001.0 + 2 * repeat, **B))
    return a, b


def test_a_clear_slowdown_is_told_with_its_size():
    found = compare_runs(*pair(6, change=0.2))
    assert found.answer == "slower"
    assert found.change.low < 0.2 < found.change.high
    assert found.sentence.startswith("B is slower: its step takes ")
    assert "paired by repeat" in found.method


def test_a_clear_gain_is_told_too():
    found = compare_runs(*pair(6, change=-0.2))
    assert found.answer == "faster"
    assert "less time" in found.sentence


def test_what_cannot_be_told_says_what_could_have_been_seen():
    found = compare_runs(*pair(5))
    assert found.answer == "cannot tell"
    assert found.change.low < 0 < found.change.high
    assert found.smallest_visible > found.change.high - found.change.value
    assert f"a difference of {found.smallest_visible * 100:.1f} % would have been seen" in found.sentence


def test_one_run_of_each_says_that_the_spread_is_assumed():
    found = compare_runs(*pair(1, change=0.02))
    assert found.answer == "cannot tell"
    assert any("partly assumed (2.8 %)" in note for note in found.notes)


def test_a_loaded_machine_makes_one_run_of_each_say_less():
    a, b = pair(1, change=0.2)
    busy = tuple(quiet_sample(foreign=0.4) for _ in range(5))
    quiet, loaded = compare_runs(a, b), compare_runs([replace(a[0], samples=busy)], b)
    assert quiet.answer == "slower"
    assert loaded.answer == "cannot tell"
    assert any("assumed (8.8 %)" in note for note in loaded.notes)
    assert "loaded machine" in [caveat.name for caveat in loaded.caveats]


@pytest.mark.parametrize("level", [0.90, 0.95, 0.98])
def test_the_interval_that_is_shown_is_the_one_that_decides(level):
    for seed in range(40):
        found = compare_runs(*pair(3, change=0.04, seed=100 * seed), level=level)
        holds_no_difference = found.change.low <= 0 <= found.change.high
        assert (found.answer == "cannot tell") == holds_no_difference
        assert {found.change.level, found.a_step_seconds.level, found.b_step_seconds.level, found.level} == {level}
        assert f"({100 * level:g} % interval " in found.sentence


def test_without_a_level_98_percent_are_shown_and_decide():
    found = compare_runs(*pair(6, change=0.2))
    assert found.level == COMPARE_LEVEL == 0.98 and "98 % interval" in found.sentence and "95 %" not in found.sentence


def test_unequal_work_is_refused_unless_allowed():
    a, b = pair(2)
    amp = [
        replace(
            run,
            ranks=tuple(
                replace(rank, steps=tuple(replace(row, autocast="bfloat16") for row in rank.steps))
                for rank in run.ranks
            ),
        )
        for run in b
    ]
    found = compare_runs(a, amp)
    assert found.answer == "refused" and found.change is None
    assert "precision differ" in found.sentence
    assert found.a_step_seconds is not None
    assert compare_runs(a, amp, allow=("precision",)).answer == "cannot tell"


def test_a_side_that_failed_is_refused_by_name():
    a, b = pair(1)
    failed = [replace(b[0], outcome=make_outcome("killed", "Rank 0 was killed."))]
    found = compare_runs(a, failed, "old", "new")
    assert found.reasons == ("new has no finished run with steps",)
    with pytest.raises(BadRequest, match="nothing to compare"):
        compare_runs(a, [])


def test_suites_are_compared_arm_by_arm_and_two_lone_arms_whatever_they_are():
    one = make_suite(*(make_run(noisy(60, 0.005, n), ranks=n) for n in (1, 2)))
    two = replace(one, path=Path("/runs/other"))
    assert [found.a for found in compare_suites(one, two)] == ["A: 1 rank", "A: 2 ranks"]
    a, b = pair(2)
    (lone,) = compare_suites(make_suite(*a), make_suite(*b))
    assert lone.answer == "cannot tell"
    other = make_suite(*(make_run([0.01] * 40, ranks=n, experiment="x") for n in (1, 2)))
    with pytest.raises(BadRequest, match="in common"):
        compare_suites(one, other)


# ---- simulations: medians of runs are drawn as runs give them, so that thousands of comparisons take seconds


def called_different(repeats, change, *, run_cv, steps=60, trials=600, seed=7, level=COMPARE_LEVEL):
    """Share of comparisons called different; between-run spread `run_cv`, within a run AR(1) 0.5 and CV 5 %."""
    random = np.random.default_rng(seed)
    pool = [run_median(noisy(steps, 1.0, number)) for number in range(400)]
    different = 0
    for _ in range(trials):
        sides = []
        for scale in (1.0, 1.0 + change):
            shifts = scale * np.exp(random.normal(size=repeats) * run_cv)
            medians = tuple(
                replace(one, seconds=one.seconds * shift, low=one.low * shift, high=one.high * shift)
                for one, shift in zip((pool[i] for i in random.integers(0, 400, repeats)), shifts, strict=True)
            )
            sides.append(Side(medians, tuple(range(repeats)), (), "f", 0.028))
        found = log_difference(*sides)
        different += abs(found.middle) > found.reach(level)
    return different / trials


@pytest.mark.parametrize("repeats", [1, 2, 3, 5, 8, 15])
def test_at_most_one_in_twenty_equal_arms_is_called_different(repeats):
    assert called_different(repeats, 0.0, run_cv=0.028) <= 0.05


@pytest.mark.parametrize("repeats", [1, 2, 3, 5, 8, 15])
def test_at_95_percent_equal_arms_are_called_different_as_often_as_the_level_says_or_less(repeats):
    assert called_different(repeats, 0.0, run_cv=0.028, level=0.95) <= 0.075


@pytest.mark.parametrize("run_cv", [0.003, 0.01, 0.088])
def test_the_same_holds_on_quieter_and_on_noisier_machines_from_five_repeats_on(run_cv):
    assert called_different(5, 0.0, run_cv=run_cv) <= 0.05
    assert called_different(10, 0.0, run_cv=run_cv) <= 0.05


def test_two_percent_are_found_by_ten_repeats_of_200_steps_where_runs_differ_by_half_a_percent():
    assert called_different(10, 0.02, run_cv=0.005, steps=200) >= 0.95


def test_two_percent_cannot_be_found_by_few_repeats_where_runs_differ_by_more():
    assert called_different(5, 0.02, run_cv=0.028, steps=200) <= 0.2


def test_the_smallest_visible_difference_is_found_four_times_in_five():
    smallest = np.median([compare_runs(*pair(8, seed=1000 * n)).smallest_visible for n in range(30)])
    found = called_different(8, smallest, run_cv=0.028)
    assert 0.6 <= found <= 0.95
