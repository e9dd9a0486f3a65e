"""Inspected runs are read by themselves, kept out of every table, and missed by name when they fail."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_outcome, make_run, make_suite
from inspection_factory import make_inspection, make_pipeline
from scalewise.analysis.arms import arms_of
from scalewise.analysis.inspected_run import (
    contiguous,
    failed_inspections_of,
    inspection_of,
    inspections_of,
    pipeline_of,
    placement_rule,
)
from scalewise.analysis.summary import summarise
from scalewise.records.inspection import BusyRow, DeviceMemoryRow, LayerRow, MemoryPartsRow, TransferRow
from scalewise.records.rows import TroubleRow
from scalewise.records.spec import Inspected

ROWS = (
    LayerRow("a", "Linear", "logical:0", 100),
    LayerRow("b", "Linear", "logical:1", 100),
    TransferRow(0, "forward", "logical:0", "logical:1", 8, "s.py", 3),
    TransferRow(1, "forward", "logical:0", "logical:1", 16, "s.py", 3),
    BusyRow(2, "logical:0", "forward", "a", 0, 5),
    DeviceMemoryRow("logical:0", 500),
    DeviceMemoryRow("logical:1", 300),
    DeviceMemoryRow("logical:0", 700),
    MemoryPartsRow(0, 200, 0, 0, 30, 0, 0),
    MemoryPartsRow(1, 200, 200, 0, 30, 0, 0),
)


def _inspected(rows=ROWS, name="one-inspect", **changes):
    run = make_run([0.01] * 6, kind=Inspected(), name=name, **changes)
    return replace(run, ranks=tuple(replace(rank, inspection=rows) for rank in run.ranks))


def test_an_inspection_shows_the_last_step_of_each_kind_and_the_largest_memory():
    found = inspection_of(_inspected())

    assert found is not None
    assert found.devices == ("logical:0", "logical:1") and found.emulated
    assert [row.bytes for row in found.transfers] == [16]
    assert [row.step for row in found.timeline] == [2]
    assert {row.device: row.peak_bytes for row in found.device_memory} == {"logical:0": 700, "logical:1": 300}
    assert found.memory is not None and found.memory.step == 1
    assert (found.peak_bytes, found.gradients, found.notes) == (700, (), ())


def test_the_timeline_is_of_the_shortest_step_after_the_first():
    steps = [BusyRow(step, "cpu", "forward", "a", 0, end) for step, end in ((1, 2), (2, 50), (3, 5), (4, 7))]

    found = inspection_of(_inspected(tuple(steps)))

    assert found is not None and [row.step for row in found.timeline] == [3]


def test_the_device_that_carries_logical_ones_is_none_of_them():
    found = inspection_of(_inspected((DeviceMemoryRow("cuda:0", 900), *ROWS)))

    assert found is not None and [row.device for row in found.device_memory] == ["logical:0", "logical:1"]


def test_a_last_step_without_transfers_has_none():
    found = inspection_of(_inspected((*ROWS, MemoryPartsRow(2, 200, 200, 0, 30, 0, 0, peak_bytes=430))))

    assert found is not None and found.transfers == ()
    assert found.memory is not None and found.memory.step == 2  # of equal sums the one with the higher peak


def test_a_plain_run_is_no_inspection():
    assert inspection_of(make_run([0.01] * 6)) is None


def test_inspected_runs_are_in_no_arm_and_in_no_table():
    plain = make_run([0.01] * 40, name="one-r0")
    suite = make_suite(plain, _inspected())

    assert [arm.runs for arm in arms_of(suite.runs)] == [(plain,)]
    analysis = summarise(suite)
    assert analysis.inspected_runs == 1 and not analysis.failed and not analysis.failed_inspections
    assert [row.run_names for row in analysis.experiments[0].rows] == [("one-r0",)]
    assert [one.run for one in inspections_of(suite.runs)] == ["one-inspect"]


def test_a_failed_inspection_is_named_with_its_reason():
    crashed = _inspected(outcome=make_outcome("crashed", "Rank 0 raised."), name="bad-inspect")
    blind = _inspected(rows=(), name="blind-inspect")
    blind = replace(blind, ranks=tuple(replace(r, trouble=(TroubleRow("inspection", "no"),)) for r in blind.ranks))
    unfinished = _inspected(unfinished=True, name="late-inspect")
    suite = make_suite(make_run([0.01] * 40, name="one-r0"), crashed, blind, unfinished)

    reasons = {one.run: one.reason for one in failed_inspections_of(suite.runs)}
    assert reasons == {
        "bad-inspect": "Rank 0 raised.",
        "blind-inspect": "inspection: no",
        "late-inspect": "not finished",
    }
    assert summarise(suite).failed


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
