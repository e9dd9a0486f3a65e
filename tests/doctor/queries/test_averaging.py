"""Tests of what a script sends between ranks by itself."""

import math

from case_factory import Sheet, make_case, make_sums, make_wrapper
from hypothesis import given
from hypothesis import strategies as st

from scalewise.doctor.queries.averaging import (
    averages_by_hand,
    averages_models,
    comparisons,
    fed_differently,
    gap,
    reduces_by_hand,
    sent_bytes,
)
from scalewise.records.examination import ParameterSumsRow


def window(*sizes, operation="all_reduce"):
    sheet = Sheet().forward().backward()
    for size in sizes:
        sheet.collective(operation, size_bytes=size)
    return make_case(sheet.step()).first.windows[0]


def test_the_gradients_of_all_parameters_add_up():
    assert sent_bytes(window(400, 100).collectives) == 500
    assert reduces_by_hand(window(*[100] * 40), 4000)


def test_a_loss_is_no_gradient():
    assert not reduces_by_hand(window(4), 4000)
    assert not reduces_by_hand(window(), 4000)


def test_messages_and_barriers_average_nothing():
    assert not reduces_by_hand(window(4000, operation="send"), 4000)
    assert not reduces_by_hand(window(0, operation="barrier"), 0)


def test_whole_models_now_and_then_are_averaging():
    assert averages_by_hand((window(), window(4000)), 4000)
    assert not averages_by_hand((window(), window(400)), 4000)


def test_models_are_averaged_between_a_step_and_the_next_forward_pass():
    sheet = Sheet().collective("broadcast", size_bytes=4000).windows(2)
    assert not averages_models(make_case(sheet).first.windows, 4000)
    sheet.collective(size_bytes=4000).window()
    assert averages_models(make_case(sheet).first.windows, 4000)


finite = st.floats(-1e6, 1e6)
pairs = st.tuples(finite, st.floats(0, 1e6))


@given(pairs, st.integers(2, 5))
def test_equal_sums_are_no_gap(pair, count):
    assert gap([pair] * count) == 0


@given(st.lists(pairs, min_size=2, max_size=5))
def test_the_order_of_ranks_does_not_matter(values):
    assert gap(values) == gap(values[::-1]) >= 0


def test_what_is_not_finite_is_not_compared():
    assert (
        gap([(math.nan, 1.0), (1.0, 1.0)]) == gap([(1.0, math.inf), (1.0, 1.0)]) == gap([(0.0, 0.0), (0.0, 0.0)]) == 0
    )


def test_a_gap_is_counted_in_norms_so_that_sums_near_zero_are_fair():
    assert gap([(1e-9, 1.0), (-1e-9, 1.0)]) < 1e-8
    assert gap([(1.0, 2.0), (-1.0, 2.0)]) == 1.0


def test_steps_that_two_ranks_noted_are_compared():
    sheets = [Sheet().windows(4).row(make_sums(1)).row(make_sums(2, weight=1.0 + rank)) for rank in (0, 1)]
    sheets[0].row(make_sums(4))
    first, second = comparisons(make_case(*sheets), make_wrapper())
    assert (first.step, first.gaps, first.tensors) == (1, {}, 1)
    assert second.step == 2 and second.gaps == {"weight": 0.5}


def test_other_wrappers_and_ranks_of_other_groups_are_left_out():
    sheets = [Sheet().windows(2).row(make_sums(1, weight=float(rank + 1))) for rank in range(2)]
    assert not comparisons(make_case(*sheets), make_wrapper(index=1))
    assert not comparisons(make_case(*sheets), make_wrapper(ranks=(0,)))


def test_only_tensors_that_all_ranks_named_are_compared():
    sheets = [Sheet().windows(2).row(ParameterSumsRow(1, 0, {name: (1.0, 1.0), "b": (2.0, 2.0)})) for name in "ac"]
    (found,) = comparisons(make_case(*sheets), make_wrapper())
    assert found.tensors == 1


def test_ranks_that_made_different_numbers_of_steps_are_compared_until_the_data_ended():
    short = Sheet().windows(3).exhausted().windows(3).row(make_sums(2)).row(make_sums(4))
    long = Sheet().windows(5).exhausted().windows(5).row(make_sums(2)).row(make_sums(4, weight=2.0))
    assert [one.step for one in comparisons(make_case(short, long), make_wrapper())] == [2]


def test_ranks_with_different_inputs_are_told_from_ranks_with_the_same():
    same = [Sheet().windows(2) for _ in range(2)]
    assert not fed_differently(make_case(*same))
    assert fed_differently(make_case(same[0], Sheet().window(forward={"digest": "other"}).window()))
