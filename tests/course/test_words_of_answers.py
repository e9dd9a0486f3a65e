"""Numbers in sentences: one unit for the middle and its interval, no interval where the number is exact."""

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.phrases import listed, percent_phrase, percent_text, seconds_phrase


def between(value, low, high):
    return Estimate(value, low, high, 30, 1, "made up", 0.95)


def test_a_duration_and_its_interval_share_one_unit():
    assert seconds_phrase(between(0.00231, 0.0009, 0.0024)) == "2.31 ms [0.90, 2.40]"
    assert seconds_phrase(between(2.5e-5, 2e-5, 3e-5)) == "25.0 us [20.0, 30.0]"


def test_nothing_and_a_negative_duration_have_a_unit_too():
    assert seconds_phrase(between(0.0, 0.0, 0.0)) == "0.00 us"
    assert seconds_phrase(between(-0.002, -0.003, 0.001)) == "-2.00 ms [-3.00, 1.00]"


def test_an_exact_number_has_no_interval():
    assert seconds_phrase(between(1.0, 1.0, 1.0)) == "1.00 s"
    assert percent_phrase(between(0.5, 0.5, 0.5)) == "50.0 %"


def test_shares_are_said_in_percent():
    assert percent_phrase(between(0.85, 0.8, 0.9)) == "85.0 % [80.0, 90.0]"
    assert percent_text(0.004) == "0.40 %"
    assert percent_text(0.85) == "85 %"


def test_lists_end_in_and():
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
