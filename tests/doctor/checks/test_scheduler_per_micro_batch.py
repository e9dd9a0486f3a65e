"""Tests of the check of a scheduler that steps with every micro-batch."""

import pytest
from case_factory import Sheet, make_case, make_failure

from factories import make_outcome
from scalewise.doctor.checks import scheduler_per_micro_batch as check


def scheduled(rates, per_step=False, epoch=0):
    """Windows of four micro-batches; the rate after each scheduler step."""
    sheet, left = Sheet(), list(rates)
    micro_batch = 0
    while left:
        sheet.micro_batch(factor=0.25)
        micro_batch += 1
        if micro_batch % 4 == 0:
            sheet.step().zero()
        if not per_step or micro_batch % 4 == 0:
            sheet.schedule(rate=left.pop(0))
        if epoch and micro_batch % epoch == 0:
            sheet.exhausted()
    return sheet


def test_a_schedule_that_is_over_at_a_quarter_is_proved():
    rates = [0.1 * (1 - index / 8) for index in range(8)] + [0.0] * 24
    (finding,) = check.examine(make_case(scheduled(rates)))
    assert finding.proof == "observed" and "4 times per optimizer step" in finding.sentence
    assert finding.price.value == pytest.approx(4.0) and finding.where.text == "scheduler.step()"


def test_a_schedule_that_refuses_more_steps_is_proved():
    sheet = scheduled([0.1, 0.2] * 8).row(make_failure("ValueError", "Tried to step 17 times."))
    case = make_case(sheet, outcome=make_outcome("raised"))
    assert [finding.proof for finding in check.examine(case)] == ["observed"]


def test_a_rate_that_only_decays_is_a_suspicion():
    (finding,) = check.examine(make_case(scheduled([0.1 * 0.99**index for index in range(32)])))
    assert finding.proof == "suspected" and "on purpose" in finding.evidence[-1]


def test_a_run_that_was_ended_early_leaves_a_suspicion():
    case = make_case(scheduled([0.1, 0.0] * 8), outcome=make_outcome("enough"))
    assert [finding.proof for finding in check.examine(case)] == ["suspected"]


@pytest.mark.parametrize(
    "sheet",
    [
        scheduled([0.1 * (1 - (index + 1) / 32) for index in range(32)]),
        scheduled([0.1 * (1 - index / 8) for index in range(8)], per_step=True),
        scheduled([0.1] * 8 + [0.05] * 8 + [0.025] * 8, epoch=8),
        scheduled([0.1] * 16),
        Sheet().windows(4, 4),
        Sheet().windows(4, scheduled=True),
    ],
    ids=["ends with the training", "with the optimizer", "with the epochs", "constant", "none", "no accumulation"],
)
def test_schedules_that_are_meant_so_are_right(sheet):
    assert check.examine(make_case(sheet)) == ()
