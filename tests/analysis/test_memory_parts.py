"""Memory by purpose: parts and rest are the peak, and a change names its largest part."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from inspection_factory import make_inspection, make_parts
from scalewise.analysis.memory_parts import memory_change, memory_parts


def test_parts_and_rest_are_the_peak():
    found = memory_parts(make_inspection(memory=make_parts(), peak_bytes=15000))
    assert found is not None
    assert (sum(found.parts.values()), found.rest_bytes) == (13000, 2000)


def test_without_a_peak_nothing_is_said_about_a_rest():
    found = memory_parts(make_inspection(memory=make_parts()))
    assert found is not None and found.rest_bytes is None


def test_a_run_that_was_not_inspected_has_no_parts():
    assert memory_parts(None) is None
    assert memory_parts(make_inspection()) is None


def test_parts_at_the_peak_leave_nothing_over_and_name_what_is_no_tensor():
    at_peak = {"weights": 4000, "gradients": 4000, "buckets": 4000, "other": 500}
    row = replace(make_parts(half_copy=2000), peak_bytes=12500, at_peak=at_peak)
    found = memory_parts(make_inspection(memory=row, peak_bytes=80000))
    assert found is not None and found.at_peak
    assert (found.peak_bytes, found.rest_bytes, found.outside_bytes) == (12500, 0, 67500)
    assert (found.parts["half-precision copies"], found.most["half-precision copies"]) == (0, 2000)
    assert found.parts["work in progress"] == 500


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**7), st.integers(0, 10**7))
def test_the_change_of_the_peak_is_the_sum_of_its_parts(activations, halves, peak_a, peak_b):
    a = memory_parts(make_inspection(memory=make_parts(activation=activations), peak_bytes=peak_a))
    b = memory_parts(make_inspection(memory=make_parts(half_copy=halves), peak_bytes=peak_b))
    assert a is not None and b is not None
    change = memory_change(a, b)
    assert change.rest_bytes is not None
    assert sum(change.parts.values()) + change.rest_bytes == peak_b - peak_a


def test_the_part_that_changed_most_is_named():
    a = memory_parts(make_inspection(memory=make_parts()))
    b = memory_parts(make_inspection(memory=make_parts(activation=500, half_copy=2000)))
    assert a is not None and b is not None
    assert memory_change(a, b).largest == "half-precision copies"
    assert memory_change(a, a).largest == ""
