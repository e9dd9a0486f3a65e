"""Tests of the check for ranks that average means of different numbers of targets."""

from dataclasses import replace

import pytest
from case_factory import Sheet, make_case
from data_sheets import replay, two

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.mean_of_rank_means import examine, settle
from scalewise.doctor.finding import GradientPair
from scalewise.records.examination import WrapperRow


def rank(elements, steps=4, **backward):
    return Sheet().windows(steps, elements=elements, **backward)


def test_means_over_different_counts_are_found_with_the_error_of_their_weights():
    (finding,) = examine(two(rank(30), rank(90)))
    assert "30 to 90 targets" in finding.sentence
    assert finding.price.value == pytest.approx((1.0 + 1 / 3) / 2)  # 60/30 - 1, 1 - 60/90
    assert finding.change.name == "weigh_ranks" and finding.ranks == (0, 1)


def test_sums_that_each_rank_divides_by_its_own_count_are_found_and_not_replayed():
    (finding,) = examine(two(rank(None, reduction="sum", factor=1 / 33), rank(None, reduction="sum", factor=1 / 91)))
    assert "33 to 91 targets" in finding.sentence and finding.change is None


def test_counts_of_a_window_add_up_over_its_micro_batches():
    first = Sheet().windows(4, 2, elements=[10, 20], factor=0.5)
    assert examine(two(first, Sheet().windows(4, 2, elements=[20, 10], factor=0.5))) == ()
    (finding,) = examine(two(first, Sheet().windows(4, 2, elements=[40, 50], factor=0.5)))
    assert "30 to 90 targets" in finding.sentence and finding.change is None


@pytest.mark.parametrize(
    ("what", "first", "second"),
    [
        ("counts within 10 %", rank(100), rank(109)),
        ("means weighted by their counts", rank(30, factor=0.5), rank(90, factor=1.5)),
        ("sums over the count of all", rank(30, reduction="sum", factor=0.01), rank(90, reduction="sum", factor=0.01)),
        ("two uneven steps of five", rank(30, 3).windows(2, elements=90), rank(30, 5)),
    ],
)
def test_nothing_is_said_of(what, first, second):
    assert examine(two(first, second)) == (), what


def test_ranks_that_no_wrapper_averages_and_unknown_counts_are_not_judged():
    with pytest.raises(Abstain, match="no wrapper"):
        examine(make_case(rank(30), rank(90), wrapped=False))
    with pytest.raises(Abstain, match="could not be seen"):
        examine(two(rank(None), rank(None)))


def test_one_rank_without_notes_is_not_judged():
    wrapper = WrapperRow(0, "DistributedDataParallel", -1, "cpu", "", 4000, 0, 0, (0, 1), {})
    with pytest.raises(Abstain):
        examine(make_case(rank(30).row(wrapper)))


def shown(case, fixed):
    gradients = GradientPair(0, 2.0, 1.5, 0.1, 0.4, 0.0, 0.0)
    return replace(replay("weigh_ranks", case, fixed), gradients=gradients)


def test_a_replay_shows_the_gradient_only_where_both_runs_began_alike():
    case = two(rank(30, loss=2.0), rank(90, loss=3.0))
    (finding,) = examine(case)
    settled = settle(case, finding, shown(case, two(rank(30, loss=1.0), rank(90, loss=4.5))))
    assert settled.proof == "replayed" and "33.3%" in settled.evidence[-1]
    other = settle(case, finding, shown(case, two(rank(30, loss=1.7), rank(90, loss=4.5))))
    assert other.proof == "observed" and "other weights or data" in other.evidence[-1]
