"""Hours, GPU-hours and money of a training, from steps or from samples."""

import pytest

from rehearsal_specimen import answer_of
from scalewise.predict.cost import Training, cost_rows


def test_steps_take_what_a_step_and_the_time_between_steps_take():
    answer = answer_of((2, 8))
    rows = cost_rows(answer, Training(steps=3600, price_per_gpu_hour=2.5))
    each = answer.at[1].predicted.step.value + 1e-3
    assert rows[1].hours.value == pytest.approx(each)
    assert rows[1].gpu_hours.value == pytest.approx(8 * each)
    assert rows[1].cost.value == pytest.approx(20 * each)
    assert rows[1].cost.low < rows[1].cost.value < rows[1].cost.high
    assert rows[1].samples == 3600 * 8 * 64


def test_samples_take_as_many_steps_as_hold_them():
    rows = cost_rows(answer_of((2, 8)), Training(samples=1000))
    assert [row.steps for row in rows] == [8, 2]
    assert rows[0].cost is None


def test_nothing_asked_for_costs_nothing():
    assert cost_rows(answer_of((2,)), Training()) == ()
