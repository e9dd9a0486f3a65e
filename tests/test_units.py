"""Tests of how numbers are written for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.units import (
    bytes_text,
    counted,
    listed,
    named_ranks,
    seconds_text,
    significant,
    three_digits,
    with_interval,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.000312, "312 us"),
        (0.00503, "5.03 ms"),
        (1.2, "1.20 s"),
        (0.9996, "1.00 s"),
        (0.9994, "999 ms"),
        (-0.0021, "-2.10 ms"),
        (0.0, "0.00 us"),
    ],
)
def test_seconds_are_written_in_the_unit_that_suits_them(seconds, text):
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(512, "512 B"), (16.1 * 2**20, "16.1 MiB"), (4.07 * 2**30, "4.07 GiB"), (3 * 2**40, "3.00 TiB")]
)
def test_bytes_are_written_in_binary_units(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(("value", "text"), [(0.031, "0.03"), (5.031, "5.03"), (31.24, "31.2"), (312.4, "312")])
def test_bare_numbers_are_written_with_three_digits(value, text):
    assert three_digits(value) == text


SCALES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@given(st.floats(min_value=1e-6, max_value=1e5))
def test_a_written_duration_is_within_half_a_percent_of_the_number(seconds):
    number, unit = seconds_text(seconds).split()
    assert float(number) * SCALES[unit] == pytest.approx(seconds, rel=0.0051)


def test_a_rounded_zero_has_no_sign():
    assert three_digits(-0.001) == "0.00"
    assert three_digits(-0.01) == "-0.01"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.031, "0.0310"),
        (5.031, "5.03"),
        (9.996, "10.0"),
        (31.24, "31.2"),
        (999.6, "1000"),
        (1024, "1020"),
        (161452, "161\u202f000"),
        (-0.0, "0"),
        (-2.5, "-2.50"),
        (3.2e-9, "3.20e-09"),
        (float("inf"), "∞"),
        (float("nan"), "–"),
    ],
)
def test_a_plain_number_has_three_significant_digits(value, text):
    assert significant(value) == text


@pytest.mark.parametrize(
    ("told", "texts"),
    [
        ((5.031, 4.612, 5.449), ("5.03", "4.61", "5.45")),
        ((39.2, 27.4, 51.1), ("39", "27", "51")),
        ((161452, 146174, 178326), ("161\u202f000", "146\u202f000", "178\u202f000")),
        ((863, -8223, 10330), ("900", "-8200", "10\u202f300")),
        ((10.0, 9.9004, 10.0996), ("10.00", "9.90", "10.10")),
        ((-0.002, -0.9, 0.9), ("0.00", "-0.90", "0.90")),
        ((2.0, 2.0, 2.0), ("2.00", "2.00", "2.00")),
        ((2.0, 1.0, float("inf")), ("2.00", "1.00", "∞")),
    ],
)
def test_half_an_interval_has_two_digits_and_value_and_ends_stop_there(told, texts):
    assert with_interval(*told) == texts


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.floats(1e-6, 1e9))
def test_rounding_moves_neither_end_by_more_than_a_twentieth_of_half_the_interval(value, below, above):
    half = (below + above) / 2
    for exact, text in zip(
        (value, value - below, value + above), with_interval(value, value - below, value + above), strict=True
    ):
        assert abs(float(text.replace("\u202f", "")) - exact) <= 0.0501 * half + 1e-9 * abs(exact)


def test_lists_end_in_and():
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


@pytest.mark.parametrize(
    ("ranks", "text"), [((2,), "Rank 2"), ((0, 1), "Ranks 0 and 1"), ((0, 1, 3), "Ranks 0, 1 and 3")]
)
def test_ranks_are_listed_as_people_do(ranks, text):
    assert named_ranks(ranks) == text
    assert named_ranks(ranks, small=True) == text.lower()


@pytest.mark.parametrize(
    ("count", "thing", "text"), [(1, "batch", "1 batch"), (16, "batch", "16 batches"), (0, "GPU", "0 GPUs")]
)
def test_things_are_counted_in_the_plural(count, thing, text):
    assert counted(count, thing) == text
