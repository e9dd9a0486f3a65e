"""What a sample costs is told from rehearsals of several batches, and guessed, and said so, from one."""

import pytest

from scalewise.predict.compute_work import ONE_BATCH, phase_seconds, samples_of, work_line
from taped_steps import ddp_tape, rehearsal


def test_two_batches_tell_what_is_fixed_and_what_a_sample_costs():
    line = work_line([rehearsal(ddp_tape(samples=one, forward=4e-3, per_sample=1e-3)) for one in (8, 32)])
    assert line.phases["forward"].fixed == pytest.approx(4e-3)
    assert line.phases["forward"].per_sample == pytest.approx(1e-3)
    assert line.factors(8, 4)["forward"] == pytest.approx(36 / 12)
    assert "optimizer" not in line.phases
    assert line.guesses == () and line.beyond(16) == ()
    assert "64 samples" in line.beyond(64)[0]


def test_one_batch_is_taken_in_proportion_and_said_to_be_guessed():
    line = work_line([rehearsal(ddp_tape(samples=32))])
    assert line.factors(32, 2)["backward"] == pytest.approx(2)
    assert line.guesses == (ONE_BATCH,) == line.beyond(64)


def test_batches_that_hardly_differ_tell_nothing():
    assert work_line([rehearsal(ddp_tape(samples=one)) for one in (30, 32)]).guesses == (ONE_BATCH,)


def test_samples_that_nobody_saw_are_in_proportion_too():
    line = work_line([rehearsal(ddp_tape(samples=None)), rehearsal(ddp_tape(samples=8))])
    assert line.factors(1, 0.5)["forward"] == pytest.approx(0.5)


def test_only_rehearsals_in_the_same_company_are_laid_beside_each_other():
    alone = rehearsal(ddp_tape(samples=64, forward=1e-3), company=1)
    both = [rehearsal(ddp_tape(samples=one, forward=4e-3, per_sample=1e-3), company=2) for one in (8, 32)]
    assert work_line([alone, *both]).phases["forward"].fixed == pytest.approx(4e-3)


def test_a_line_never_goes_below_nothing():
    faster = [rehearsal(ddp_tape(samples=8, forward=9e-3)), rehearsal(ddp_tape(samples=32, forward=3e-3))]
    assert work_line(faster).phases["forward"].per_sample == 0
    steep = [rehearsal(ddp_tape(samples=8, forward=1e-3)), rehearsal(ddp_tape(samples=32, forward=9e-3))]
    assert work_line(steep).phases["forward"].fixed == 0


def test_samples_are_those_of_one_micro_batch():
    assert samples_of(ddp_tape(samples=8, micro_batches=4)) == 8
    assert phase_seconds(ddp_tape(samples=8, micro_batches=4))["forward"] == pytest.approx(4 * 10e-3)
