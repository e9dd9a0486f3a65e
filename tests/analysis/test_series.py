"""Tests of grouping optimizer steps into iterations."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_run, noisy
from scalewise.analysis.series import WarmUp, find_warmup, iteration_starts, sentence, series, step_modules
from scalewise.records.rows import RootRow


def groups(optimizers):
    starts, whole = iteration_starts(np.array(optimizers))
    return [optimizers[begin:end] for begin, end in zip(starts, [*starts[1:], whole], strict=True)]


def test_with_one_optimizer_every_step_is_an_iteration():
    assert groups([0, 0, 0]) == [[0], [0], [0]]


def test_a_gan_steps_both_in_turn():
    assert groups([0, 1] * 3) == [[0, 1]] * 3
    assert groups([1, 0] * 3) == [[1, 0]] * 3


def test_several_critic_steps_end_with_the_generator():
    assert groups([0, 0, 0, 1] * 5) == [[0, 0, 0, 1]] * 5


def test_a_cut_off_last_iteration_is_left_out():
    assert groups([0, 1, 0, 1, 0]) == [[0, 1], [0, 1]]


def test_an_irregular_first_iteration_does_not_hide_the_pattern():
    assert groups([0, 0, 0, 0, 0, 1] + [0, 0, 1] * 6)[1:] == [[0, 0, 1]] * 6


@pytest.mark.parametrize("optimizers", [[0] * 60 + [1] * 40, [0] * 40 + [1] * 60, [0] * 50 + [1] * 50])
def test_optimizers_used_one_after_the_other_make_no_pattern(optimizers):
    assert groups(optimizers) == [[index] for index in optimizers]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_iterations_are_whole_and_in_order(optimizers):
    found = groups(optimizers)
    flat = [index for group in found for index in group]
    assert all(found) and flat == optimizers[: len(flat)]
    assert 2 * len(flat) >= len(optimizers)


@given(st.lists(st.floats(1e-6, 10), max_size=100).map(np.array))
def test_at_least_one_step_and_at_most_a_third_are_left_out(values):
    found = find_warmup(values)
    assert min(1, max(len(values) - 1, 0)) <= found.steps <= max(len(values) // 3, 1)


@pytest.mark.parametrize("slow", [1, 2, 5, 12])
def test_slow_first_steps_are_left_out(slow):
    values = noisy(60, 0.005, 3)
    values[:slow] *= np.linspace(4, 1.5, slow)
    assert find_warmup(values) == WarmUp(slow, True)


def test_fast_first_steps_are_left_out_too():
    values = noisy(90, 0.005, 4)
    values[:10] *= 0.6
    found = find_warmup(values)
    assert found.over and 8 <= found.steps <= 10


def test_settled_steps_lose_only_the_first():
    dropped = [find_warmup(noisy(100, 0.005, seed)).steps for seed in range(100)]
    assert np.mean(np.array(dropped) <= 3) > 0.9


def test_a_run_that_is_still_falling_after_a_third_has_not_warmed_up():
    values = noisy(60, 0.005, 5)
    values[:30] *= np.linspace(9, 2, 30)
    assert find_warmup(values) == WarmUp(20, False)


def test_a_change_after_half_of_the_first_third_is_found():
    values = np.concatenate([np.full(15, 0.010), np.full(45, 0.005)])
    assert find_warmup(values) == WarmUp(15, True)


def test_a_handful_of_steps_loses_the_first():
    assert find_warmup(np.array([3.0, 1.0, 1.0])) == WarmUp(1, True)
    assert find_warmup(np.array([3.0])) == WarmUp(0, False)
    assert find_warmup(np.array([])) == WarmUp(0, False)


def test_the_step_of_a_run_is_the_longest_over_its_ranks():
    found = series(make_run([[1.0, 2.0, 3.0], [2.0, 1.0, 4.0]], ranks=2))
    assert found.slowest_seconds.tolist() == [2.0, 2.0, 4.0]


def test_ranks_are_aligned_by_step_and_odd_steps_are_left_out():
    run = make_run([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], ranks=2)
    cut = replace(run.ranks[1], steps=run.ranks[1].steps[1:])
    found = series(replace(run, ranks=(run.ranks[0], cut)))
    assert found.slowest_seconds.tolist() == [2.0, 3.0]


def test_a_run_without_common_steps_has_no_series():
    run = make_run([[1.0, 2.0], [1.0, 2.0]], ranks=2)
    apart = tuple(replace(rank, steps=rank.steps[index : index + 1]) for index, rank in enumerate(run.ranks))
    assert series(replace(run, ranks=apart)) is None
    assert series(replace(run, ranks=())) is None


def in_turns(run, pattern, samples=None):
    """The run's steps by several optimizers in turn, which saw so many samples each."""
    rows = tuple(
        replace(row, optimizer=pattern[row.step % len(pattern)], samples=(samples or {}).get(row.step, row.samples))
        for row in run.ranks[0].steps
    )
    return series(replace(run, ranks=(replace(run.ranks[0], steps=rows),)))


def test_a_gan_iteration_lasts_from_its_first_step_to_the_end_of_its_last_and_counts_samples_once():
    found = in_turns(make_run([0.1, 0.3] * 10, step={"data_ns": 0}), (0, 1))
    between = 2000e-9
    assert found.slowest_seconds == pytest.approx(np.full(10, 0.4 + between), rel=1e-12)
    assert found.phase_seconds["rest"][0][-1] == pytest.approx((0.1 + 0.3) / 8 + between)
    assert found.settled_loops()[-1] == pytest.approx(0.4 + 2 * between, rel=1e-12)
    assert found.optimizer_steps == 2
    assert found.global_samples() == 64


def test_several_critic_steps_of_an_iteration_see_several_batches():
    found = in_turns(make_run([0.1, 0.1, 0.3] * 10), (0, 0, 1))
    assert found.global_samples() == 128


def test_an_iteration_of_which_one_optimizer_s_samples_are_unknown_has_none():
    run = make_run([0.1, 0.3] * 10)
    found = in_turns(run, (0, 1), samples=dict.fromkeys(range(0, 20, 2)))
    assert found.global_samples() is None


def test_samples_known_of_few_steps_only_are_not_told():
    run = make_run([0.1] * 20)
    rows = tuple(replace(row, samples=None if row.step % 3 else 64) for row in run.ranks[0].steps)
    assert series(replace(run, ranks=(replace(run.ranks[0], steps=rows),))).global_samples() is None


def test_the_loop_counts_waiting_for_data_outside_the_step_once():
    run = make_run([0.001] * 20, step={"data_ns": 500_000, "data_inside_ns": 200_000})
    assert series(run).loop_median().seconds == pytest.approx(0.001 + 0.0003 + 0.000002)


def test_figures_that_were_not_recorded_are_none():
    run = make_run([0.001] * 20, samples_in_all=None, step={"forward_ns": None, "between_ns": None})
    found = series(run)
    assert found.global_samples() is None
    assert found.loop_median() is None
    assert found.typical(found.phase_seconds["forward"]) is None
    assert found.typical(found.phase_seconds["backward"]) == pytest.approx(0.0005)


def test_phases_sampled_in_some_steps_are_told_from_those():
    run = make_run([0.001] * 30)
    rows = tuple(replace(row, forward_ns=None if row.step % 3 else 7000) for row in run.ranks[0].steps)
    found = series(replace(run, ranks=(replace(run.ranks[0], steps=rows),)))
    assert found.typical(found.phase_seconds["forward"]) == pytest.approx(7e-6)


def modules(opened_by, samples_at, names=("Tower", "Head"), **step):
    run = make_run([0.1] * 12, step={"opened_by": opened_by, "samples_at": samples_at, **step})
    roots = tuple(RootRow(number, name) for number, name in enumerate(names))
    run = replace(run, ranks=(replace(run.ranks[0], roots=roots),))
    return step_modules(run, series(run))


def test_the_module_that_opens_the_steps_and_counts_the_samples_is_named():
    assert sentence(modules(0, 0)) == "A step opens with a call of Tower; samples are counted at its input."


def test_samples_counted_elsewhere_are_said_to_be():
    assert sentence(modules(0, 1)) == "A step opens with a call of Tower; samples are counted at the input of Head."


def test_nothing_is_said_of_files_that_name_no_module():
    assert sentence(modules(None, None)) == ""
    assert sentence(modules(5, 5)) == "", "a row was lost"


def test_no_place_is_named_for_samples_that_are_not_known():
    found = modules(0, 0, samples=None, samples_unknown="no rows")
    assert sentence(found) == "A step opens with a call of Tower."
    assert found.samples_unknown == "the input of Tower holds no tensor with a first dimension"
