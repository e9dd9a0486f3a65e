"""A model over devices: shares of the step, copies, and the rule that places the layers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspection_factory import make_inspection, make_pipeline
from scalewise.analysis.pipeline import contiguous, pipeline_of, placement_rule


def test_devices_that_take_turns_are_never_busy_together():
    found = pipeline_of(make_pipeline(devices=2, depth=6))
    assert found is not None
    assert (found.one_busy_share, found.together_share, found.idle_share) == (1.0, 0.0, 0.0)
    assert [one.busy_share for one in found.devices] == [0.5, 0.5]


def test_devices_that_work_at_once_are_seen_together():
    found = pipeline_of(make_pipeline(devices=2, depth=6, together=True))
    assert found is not None and found.together_share == 1.0


@given(st.integers(1, 6), st.integers(6, 24))
def test_contiguous_blocks_hand_over_one_time_less_than_there_are_devices(devices, depth):
    found = pipeline_of(make_pipeline(devices, depth))
    assert found is not None
    assert found.forward.count == found.backward.count == devices - 1
    assert sum(len(one.layers) for one in found.devices) == depth


def test_the_line_of_the_hand_over_is_told():
    found = pipeline_of(make_pipeline(devices=5, depth=20))
    assert found is not None
    (line,) = found.hand_overs
    assert (line.file, line.line, line.copies, line.bytes) == ("/s/mp.py", 7, 4, 1024)


def test_an_inspection_without_layers_is_no_pipeline():
    assert pipeline_of(None) is None
    assert pipeline_of(make_inspection()) is None


@pytest.mark.parametrize(
    ("devices", "rule"),
    [
        (["a"] * 3 + ["b"] * 4, "0 if i < depth // 2 else 1"),
        (["a"] * 3 + ["b"] * 3, "i * N // depth"),
        (["a"] * 3 + ["b"] * 3 + ["c"], "i // ceil(depth / N)"),
        (["a", "b", "a", "b"], None),
    ],
)
def test_a_rule_is_told_only_if_it_gives_the_measured_places(devices, rule):
    assert placement_rule(devices) == rule


def test_a_device_that_comes_back_is_not_contiguous():
    assert contiguous(["a", "a", "b"])
    assert not contiguous(["a", "b", "a"])
