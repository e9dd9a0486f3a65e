"""Speedup and efficiency against one rank, for strong and weak scaling, and between the rehearsed numbers of ranks."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rehearsal_specimen import answer_of, full_answer, pipeline, shared_model, with_samples
from scalewise.analysis.relation import Relation
from scalewise.predict.answer import RehearsalAnswer
from scalewise.predict.conclusion import conclusions_from
from scalewise.predict.link import Link, Wire
from scalewise.predict.predicted_scaling import (
    OWN_SAMPLES,
    ScalingCurve,
    curve_points,
    figures_against_base,
    scaling_kind,
    scaling_table,
)
from scalewise.predict.prediction import LEVEL, predict
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


def test_all_rows_have_one_level_and_two_levels_are_not_added_up():
    answer = full_answer()
    table = scaling_table(answer)
    told = [one for row in table.rows for one in (row.predicted, row.measured, row.ideal) if one is not None]
    found = [one for figure in told for one in (figure.step, figure.throughput, figure.speedup, figure.efficiency)]
    assert {one.level for one in (*found, table.base.step)} == {LEVEL}
    assert {point.efficiency.level for point in curve_points(answer, table)} == {LEVEL}
    with pytest.raises(ValueError, match="restate them"):
        figures_against_base(
            answer.at[0].predicted.step, 64.0, 2, replace(table.base, step=table.base.step.at(0.95)), "strong"
        )


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
    def blind(answer: RehearsalAnswer) -> RehearsalAnswer:
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
    assert scaling_table(RehearsalAnswer("train.py", (), "cpu", SLOW)) is None


@pytest.mark.parametrize("strong", [True, False])
def test_between_rehearsals_the_curve_is_what_a_rehearsal_there_would_have_given(strong):
    answer, there = answer_of((2, 16), strong=strong), answer_of((8,), strong=strong)
    curve = ScalingCurve(answer, "strong" if strong else "weak")
    assert curve.step(8).value == pytest.approx(there.at[0].predicted.step.value, rel=0.01)
    assert curve.step(16).value == pytest.approx(answer.at[1].predicted.step.value)
    assert curve.step(8).low < curve.step(8).value < curve.step(8).high
    assert curve.most_ranks == (64 if strong else None)


@given(wires, st.integers(1, 16_384), st.booleans())
def test_more_ranks_never_do_more_each_than_one_rank_alone(wire, ranks, strong):
    answer = answer_of((2, 8), strong=strong, link=Link("any", wire), base=None)
    table = scaling_table(answer)
    curve = ScalingCurve(answer, table.kind)
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


def test_a_batch_that_is_shared_rounded_up_is_strong_scaling_by_a_guess():
    answer = with_samples(answer_of(strong=True, samples=500), [500, 504, 512])
    kind, guesses = scaling_kind(answer)
    assert kind == "strong"
    assert "only nearly the same, 500 to 512 samples" in guesses[0]


def test_batches_that_vary_much_or_as_much_as_those_of_a_rank_are_not_shared():
    assert scaling_kind(with_samples(answer_of((2, 8), samples=500), [500, 700]))[0] == "weak"
    few = answer_of((8, 9), samples=10, base=None)
    assert scaling_kind(with_samples(few, [80, 85]))[0] == "weak"


@given(st.integers(1, 5000), st.sets(st.integers(2, 512), min_size=1, max_size=4))
def test_sharing_rounded_up_is_strong_as_long_as_a_rank_has_some(samples, numbers):
    ordered = sorted(numbers)
    totals = [ranks * -(-samples // ranks) for ranks in ordered]
    assume(max(totals) <= 1.2 * samples and ordered[-1] >= 3)
    answer = with_samples(answer_of(tuple(ordered), strong=True, samples=samples), totals)
    assert scaling_kind(answer)[0] == "strong"


@given(st.lists(st.floats(1, 1e4), min_size=3, max_size=3))
def test_the_curve_goes_through_every_row_whatever_the_batches(totals):
    answer = with_samples(answer_of(), totals)
    table = scaling_table(answer)
    drawn = {point.ranks: point.efficiency.value for point in curve_points(answer, table)}
    for row in table.rows:
        assert drawn[row.ranks] == pytest.approx(row.predicted.efficiency.value)


def test_between_a_number_of_samples_and_none_the_curve_knows_none():
    answer = with_samples(answer_of((2, 8)), [128, 0])
    curve = ScalingCurve(answer, "weak")
    assert curve.samples(2) == 128 and curve.samples(4) is None and curve.samples(8) == 0
    assert figures_against_base(curve.step(4), None, 4, answer.base, "weak").throughput is None


def test_an_efficiency_that_cannot_be_puts_the_samples_in_doubt():
    table = scaling_table(shared_model())
    assert "at 64 ranks is hardly possible" in table.doubt and "step times hold" in table.doubt
    assert OWN_SAMPLES in table.guesses


def test_messages_from_rank_to_rank_put_the_samples_in_doubt():
    table = scaling_table(pipeline())
    assert "(send), as the stages of a pipeline do" in table.doubt
    assert OWN_SAMPLES in table.guesses


def test_an_efficiency_that_is_far_too_good_is_in_doubt_even_where_nobody_is_sure():
    plain = shared_model((8,))
    step = plain.at[0].predicted.step
    unsure = replace(plain.at[0].predicted, step=replace(step, low=step.value / 20, high=step.value * 20))
    table = scaling_table(replace(plain, at=(replace(plain.at[0], predicted=unsure),)))
    assert table.rows[0].predicted.efficiency.low < 1.1 and table.doubt


@pytest.mark.parametrize("answer", [answer_of(), answer_of(strong=True), full_answer()])
def test_ranks_with_samples_of_their_own_are_in_no_doubt(answer):
    assert scaling_table(answer).doubt == ""


def test_one_rank_has_nothing_to_scale():
    table = scaling_table(answer_of((1,)))
    assert table.further == () and table.guesses == ()
    assert [row.ranks for row in scaling_table(answer_of((1, 2))).further] == [2]


def together(kind, batches, samples=None):
    """Eight and sixteen ranks that work on so many batches."""
    relation = Relation(kind, "DTensor", "each parameter is split over 8 ranks", 8, (0,), batches, samples)
    answer = answer_of((8, 16), base=None)
    at = []
    for one in answer.at:
        rehearsal = replace(one.rehearsal, relation=relation)
        at.append(replace(one, rehearsal=rehearsal, predicted=predict(rehearsal, answer.link)))
    return replace(answer, at=tuple(at))


@pytest.mark.parametrize("kind", ["tensor parallel", "pipeline"])
def test_ranks_that_work_on_one_batch_scale_strongly_and_count_it_once(kind):
    answer = together(kind, 1)
    own = answer.at[0].rehearsal.typical.samples
    table = scaling_table(answer)

    assert table.kind == "strong"
    assert [row.samples for row in table.rows] == [own, own]
    assert kind.capitalize() in table.together and not table.doubt
    assert table.rows[0].predicted.speedup.value < 8, "no more than as many times as ranks"
    assert "all ranks together compute" in table.guesses[-1]


def test_of_ranks_that_share_a_batch_nothing_is_said_beyond_what_was_rehearsed():
    found = conclusions_from(together("tensor parallel", 1))

    assert found.thresholds == ()
    assert [one.ranks for one in found.curve] == [8, 16]
    assert all(not one.changes and "on one together" in one.left_out[0].reason for one in found.changes)


def test_pairs_of_ranks_that_share_a_batch_count_each_pair_once():
    answer = together("tensor parallel", 4)
    own = answer.at[0].rehearsal.typical.samples
    assert scaling_table(answer).rows[0].samples == 4 * own


def test_where_nobody_knows_who_shares_a_batch_samples_are_not_told():
    answer = together("pipeline", None)
    assert all(row.predicted.throughput is None for row in scaling_table(answer).rows)


def test_pieces_of_a_pipeline_are_those_of_its_first_stage():
    assert scaling_table(together("pipeline", 1, 128.0)).rows[0].samples == 128
