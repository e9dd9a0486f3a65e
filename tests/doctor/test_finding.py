"""Tests of what a replay makes of a finding that claims time."""

import pytest
from case_factory import Sheet, make_case

from factories import make_estimate
from scalewise.doctor.finding import Finding, Replayed, TimeSaved, priced_by_time, priced_or_dismissed
from scalewise.records.spec import Change

FINDING = Finding("tiny-buckets", "slow", "Small.", ("8 buckets",), "fix")


def settled(low=1.0, high=3.0, applied=2, trouble="", timed=True, settle=priced_by_time):
    case = make_case(Sheet().windows(2))
    spared = TimeSaved(make_estimate((low + high) / 2, low, high), 10.0, "measured in turns") if timed else None
    return settle(FINDING, Replayed(Change("ddp_option"), case, case, applied, spared, trouble), "small pieces")


def test_a_faster_step_is_the_price():
    found = settled()
    assert found.proof == "replayed" and found.counts
    assert (found.price.value, found.price.unit, found.price.interval.low, found.price.interval.high) == (
        2.0,
        "ms per step",
        1.0,
        3.0,
    )
    assert "20.0% less" in found.evidence[-1]


def test_a_slower_step_makes_it_a_suspicion():
    found = settled(-3.0, -1.0)
    assert found.proof == "suspected" and found.price is None and "2 ms longer" in found.evidence[-1]


def test_a_difference_that_may_be_nothing_is_said_to_be_so():
    found = settled(-1.0, 2.0)
    assert found.proof == "observed" and found.price is None and "cannot be told from nothing" in found.evidence[-1]


def test_a_mended_script_that_fails_makes_it_a_suspicion():
    found = settled(trouble="rank 0 raised RuntimeError")
    assert found.proof == "suspected" and "rank 0 raised RuntimeError" in found.evidence[-1]


@pytest.mark.parametrize("values", [{"applied": 0}, {"timed": False}])
def test_a_replay_that_says_nothing_changes_nothing(values):
    assert settled(**values) == FINDING


def test_what_is_a_mistake_only_where_it_costs_time_is_dismissed_where_it_costs_none():
    assert settled(settle=priced_or_dismissed).proof == "replayed"
    assert settled(0.05, 0.15, settle=priced_or_dismissed) is None, "one percent"
    assert settled(-3.0, -1.0, settle=priced_or_dismissed) is None, "slower"
    for low, high in ((-1.0, 3.0), (-2.0, 2.0)):
        vague = settled(low, high, settle=priced_or_dismissed)
        assert vague.proof == "suspected" and vague.price is None
    assert settled(applied=0, settle=priced_or_dismissed) == FINDING
    assert settled(trouble="rank 0 raised", settle=priced_or_dismissed).proof == "suspected"
