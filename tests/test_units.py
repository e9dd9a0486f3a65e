"""Tests of how numbers are written for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.units import bytes_text, seconds_text, three_digits


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
