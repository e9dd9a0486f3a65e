from dataclasses import replace
from itertools import pairwise
from math import exp, sqrt
from statistics import NormalDist

import pytest

from factories import make_estimate
from rehearsal_specimen import answer_of, full_answer, pipeline
from scalewise.analysis.estimate import normal_quantile
from scalewise.predict.conclusion import conclusions_from
from scalewise.predict.order import certainty, orders
from scalewise.predict.predicted_scaling import scaling_table
from scalewise.predict.prediction import LEVEL
from scalewise.predict.prediction_text import certain, order_text


def told(value, spread):
    reach = normal_quantile(LEVEL) * spread
    return make_estimate(value, value * exp(-reach), value * exp(reach), LEVEL, positive=True)


def test_equal_numbers_have_either_order():
    assert certainty(told(10, 0.1), told(10, 0.2)) == pytest.approx(0.5)


def test_certainty_follows_the_normal_law_of_both_spreads():
    apart = certainty(told(10 * exp(0.1), 0.05), told(10, 0.05))
    assert apart == pytest.approx(NormalDist().cdf(0.1 / (0.05 * sqrt(2))))
    assert certainty(told(10, 0.05), told(10 * exp(0.1), 0.05)) == pytest.approx(1 - apart)


def test_certainty_of_simulated_orders_is_how_often_they_are_right():
    import random

    draw = random.Random(3)
    right = sum(draw.gauss(0.06, 0.05) > draw.gauss(0.0, 0.08) for _ in range(20_000)) / 20_000
    assert certainty(told(exp(0.06), 0.05), told(1.0, 0.08)) == pytest.approx(right, abs=0.01)


def test_exact_numbers_are_in_order_or_not():
    one, other = make_estimate(2, 2, 2, LEVEL, positive=True), make_estimate(1, 1, 1, LEVEL, positive=True)
    assert certainty(one, other) == 1.0
    assert certainty(other, one) == 0.0
    assert certainty(one, one) == 0.5


def test_every_number_of_ranks_is_compared_with_the_next():
    table = scaling_table(answer_of((2, 8, 64)))
    found = orders(table)
    assert [{one.first, one.second} for one in found] == [{1, 2}, {2, 8}, {8, 64}]
    assert all(0.5 <= one.certainty <= 1 and one.ratio >= 1 for one in found)
    rows = {row.ranks: row.predicted.throughput.value for row in table.rows}
    assert all(rows[one.first] >= rows[one.second] for one in found[1:])


def test_steps_are_compared_where_samples_are_not_known():
    table = scaling_table(answer_of((2, 8)))
    rows = [replace(row, predicted=replace(row.predicted, throughput=None)) for row in table.rows]
    first = orders(replace(table, rows=tuple(rows)))[-1]
    assert first.by_step
    assert "shorter step than" in order_text(first)


def test_no_order_is_told_where_samples_are_in_doubt():
    assert orders(scaling_table(pipeline())) == ()


def test_a_change_is_compared_with_the_next_of_its_list():
    answer = full_answer()
    found = conclusions_from(answer).changes[-1].changes
    assert found[-1].certainty is None
    for one, after in pairwise(found):
        assert one.certainty == certainty(one.gain, after.gain)


def test_a_probability_is_never_told_as_none_or_all():
    assert [certain(one) for one in (0.5, 0.968, 0.9951, 1.0)] == ["50 %", "97 %", "over 99 %", "over 99 %"]
