"""Speedup and efficiency against one rank, for strong and weak scaling, and between the rehearsed numbers of ranks."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal_specimen import answer_of, full_answer
from scalewise.predict.answer import Answer
from scalewise.predict.link import Link, Wire
from scalewise.predict.scaling import Curve, scaling_kind, scaling_table
from taped_steps import QUICK, SLOW

wires = st.builds(Wire, st.floats(0, 1e-3), st.floats(0, 1e-4), st.floats(1e8, 1e12))


@pytest.mark.parametrize("strong", [True, False])
def test_the_samples_tell_which_scaling_it_is(strong):
    table = scaling_table(answer_of(strong=strong))
    assert table.kind == ("strong" if strong else "weak")
    assert table.guesses == () and not table.base_modelled


def test_strong_scaling_shares_one_batch():
    table = scaling_table(answer_of((2, 4), strong=True, link=QUICK))
    row = table.rows[0]
    assert row.samples == 64
    assert row.predicted.speedup.value == pytest.approx(table.base.step.value / row.predicted.step.value)
    assert row.ideal.step.value == pytest.approx(table.base.step.value / 2)
    assert row.ideal.efficiency.value == pytest.approx(1)


def test_weak_scaling_counts_the_work_of_all():
    row = scaling_table(answer_of((8,))).rows[0]
    assert row.predicted.speedup.value == pytest.approx(8 * row.predicted.efficiency.value)
    assert row.ideal.throughput.value == pytest.approx(8 * 64 / row.ideal.step.value)
    assert row.predicted.throughput.low < row.predicted.throughput.value < row.predicted.throughput.high


def test_what_was_measured_stands_beside_what_was_predicted():
    rows = scaling_table(full_answer()).rows
    assert rows[0].measured.step.value == pytest.approx(1.04 * rows[0].predicted.step.value)
    assert [row.measured is None for row in rows] == [False, True, True]


def test_without_one_rank_computing_alone_is_the_base_and_that_is_said():
    table = scaling_table(answer_of(base=None))
    assert table.base_modelled and not table.base.measured
    assert "one rank alone" in table.guesses[-1]
    assert table.rows[0].predicted.efficiency.value < 1


def test_without_samples_the_scaling_that_was_asked_for_counts_and_else_is_guessed():
    def blind(answer: Answer) -> Answer:
        at = tuple(replace(one, predicted=replace(one.predicted, samples=None)) for one in answer.at)
        return replace(answer, at=at, base=replace(answer.base, samples=None))

    strong = blind(answer_of(strong=True, scaling="strong"))
    assert scaling_kind(strong) == ("strong", ())
    row = scaling_table(strong).rows[0]
    assert row.predicted.throughput is None
    assert row.predicted.speedup.value == pytest.approx(strong.base.step.value / row.predicted.step.value)
    assert scaling_kind(blind(answer_of()))[1] != ()


def test_batches_that_are_neither_are_said_to_be():
    answer = answer_of((2, 8))
    at = (answer.at[0], replace(answer.at[1], predicted=replace(answer.at[1].predicted, samples=999.0)))
    assert "neither" in scaling_kind(replace(answer, at=at))[1][0]


def test_nothing_predicted_has_no_table():
    assert scaling_table(Answer("train.py", (), "cpu", SLOW)) is None


@pytest.mark.parametrize("strong", [True, False])
def test_between_rehearsals_the_curve_is_what_a_rehearsal_there_would_have_given(strong):
    answer, there = answer_of((2, 16), strong=strong), answer_of((8,), strong=strong)
    curve = Curve(answer, "strong" if strong else "weak")
    assert curve.step(8).value == pytest.approx(there.at[0].predicted.step.value, rel=0.01)
    assert curve.step(16).value == pytest.approx(answer.at[1].predicted.step.value)
    assert curve.step(8).low < curve.step(8).value < curve.step(8).high
    assert curve.most_ranks == (64 if strong else None)


@given(wires, st.integers(1, 16_384), st.booleans())
def test_more_ranks_never_do_more_each_than_one_rank_alone(wire, ranks, strong):
    answer = answer_of((2, 8), strong=strong, link=Link("any", wire), base=None)
    table = scaling_table(answer)
    curve = Curve(answer, table.kind)
    assert all(row.predicted.efficiency.value <= 1 + 1e-9 for row in table.rows)
    per_rank = curve.samples(ranks) / ranks / curve.step(ranks).value
    assert per_rank <= table.base.samples / table.base.step.value * (1 + 1e-6)


@given(wires, st.floats(1, 100), st.booleans())
def test_a_faster_link_is_never_slower(wire, factor, strong):
    faster = Wire(wire.start_seconds / factor, wire.hop_seconds / factor, wire.bytes_per_second * factor)
    before = scaling_table(answer_of((2, 64), strong=strong, link=Link("a", wire)))
    after = scaling_table(answer_of((2, 64), strong=strong, link=Link("b", faster)))
    for was, becomes in zip(before.rows, after.rows, strict=True):
        assert becomes.predicted.step.value <= was.predicted.step.value * (1 + 1e-9)
