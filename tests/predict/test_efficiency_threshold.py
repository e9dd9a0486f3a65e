"""The first number of ranks at which efficiency falls under a share is found, with the interval around it."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rehearsal_specimen import answer_of, with_samples
from scalewise.predict.efficiency_threshold import efficiency_thresholds
from scalewise.predict.link import Link, Wire
from scalewise.predict.predicted_scaling import ScalingCurve, figures_against_base, scaling_table
from taped_steps import QUICK


def efficiency(answer, ranks):
    table = scaling_table(answer)
    curve = ScalingCurve(answer, table.kind)
    return figures_against_base(curve.step(ranks), curve.samples(ranks), ranks, table.base, table.kind).efficiency.value


def found(answer):
    return {one.share: one for one in efficiency_thresholds(answer, scaling_table(answer))}


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-6, 1e-3), st.floats(1e8, 1e11), st.booleans())
def test_a_threshold_is_the_first_number_below(hop, rate, strong):
    answer = answer_of(strong=strong, link=Link("any", Wire(1e-5, hop, rate), spread=0.1))
    for share, threshold in found(answer).items():
        if threshold.ranks is not None:
            assert efficiency(answer, threshold.ranks) < share
            assert threshold.ranks == 2 or efficiency(answer, threshold.ranks - 1) >= share
            assert threshold.earliest <= threshold.ranks
            assert threshold.latest is None or threshold.latest >= threshold.ranks


def test_fewer_ranks_are_above_80_than_above_50_percent():
    threshold = found(answer_of(strong=True, per_sample=5e-3))
    assert threshold[0.8].ranks <= threshold[0.5].ranks <= 64


def test_a_link_that_is_quick_enough_has_no_threshold_as_far_as_was_looked():
    threshold = found(answer_of(link=Link("ideal", Wire(0, 0, 1e15))))[0.8]
    assert threshold.ranks is None and threshold.looked_to == 16_384


def test_strong_scaling_is_looked_at_until_a_rank_has_one_sample():
    assert found(answer_of((2, 8), strong=True, samples=32, link=QUICK))[0.5].looked_to == 32


def test_a_threshold_farther_than_any_rehearsal_says_so():
    threshold = found(answer_of((2, 4), link=Link("far", Wire(0, 1e-3, 1e9))))[0.5]
    assert threshold.ranks > 4 and threshold.beyond


def test_nobody_looks_farther_than_the_link_is_known():
    slow = Link("far", Wire(0, 1e-3, 1e9), most_ranks=4)
    assert found(answer_of((2, 4), link=slow))[0.5].looked_to == 4
    assert found(answer_of((2, 4), link=replace(slow, most_ranks=0)))[0.5].ranks > 4
    assert (
        efficiency_thresholds(answer_of((1,), link=replace(slow, most_ranks=1)), scaling_table(answer_of((1,)))) == ()
    )


def test_beyond_one_node_only_whole_nodes_are_tried():
    inside, between = Wire(1e-6, 1e-6, 1e12), Wire(1e-5, 1e-5, 5e8)
    threshold = found(answer_of((2, 64), link=Link("two", inside, between, 8)))[0.8]
    assert threshold.ranks % 8 == 0


def test_with_a_single_sample_for_each_of_few_ranks_nobody_is_asked_about_none():
    assert found(answer_of((2,), strong=True, samples=2, link=QUICK))[0.5].looked_to == 2


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(1, 1e5), min_size=4, max_size=4),
    st.sampled_from([(2, 8, 64, 100), (3, 5, 12, 33), (2, 1000, 1001, 9999)]),
    st.sampled_from([0, 4, 8]),
)
def test_no_threshold_comes_later_than_a_row_that_is_below(totals, numbers, per_node):
    link = Link("any", Wire(1e-5, 1e-6, 1e9), Wire(1e-5, 1e-5, 1e9) if per_node else None, per_node, spread=0.1)
    answer = with_samples(answer_of(numbers, link=link), totals)
    table = scaling_table(answer)
    for threshold in efficiency_thresholds(answer, table):
        for row in table.rows:
            told = row.predicted.efficiency
            sides = ((told.value, threshold.ranks), (told.low, threshold.earliest), (told.high, threshold.latest))
            for value, first in sides:
                assert value >= threshold.share * (1 - 1e-9) or (first is not None and first <= row.ranks)


def test_a_batch_shared_rounded_up_falls_off_where_its_rows_do():
    answer = with_samples(answer_of(strong=True, samples=500), [500, 504, 512])
    rows = scaling_table(answer).rows
    below = next(row.ranks for row in rows if row.predicted.efficiency.value < 0.5)
    assert found(answer)[0.5].ranks <= below
