"""Tests of a run's rows as arrays."""

from dataclasses import replace

import numpy as np
import pytest

from factories import make_run
from scalewise.analysis.series import series


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
