"""H3.4: used one at a time or together, faster or slower: as it was seen."""

from dataclasses import replace

from course_evidence import devices_evidence
from inspection_factory import make_parts
from scalewise.explain.homework3.devices import ALL, DEVICES, arms_along
from scalewise.explain.homework3.h3_4_devices import answers
from scalewise.records.inspection import DeviceMemoryRow


def test_devices_that_take_turns_are_used_one_at_a_time():
    used, _ = answers(devices_evidence())
    assert used.text.startswith("Yes, but one at a time.")
    assert "logical:0 20 %" in used.text


def test_devices_that_overlap_are_used_together():
    used, _ = answers(devices_evidence(together=True))
    assert used.text.startswith("Yes, and together.")


def test_a_slower_step_on_more_devices_is_a_no():
    _, faster = answers(devices_evidence((0.02, 0.021, 0.03)))
    assert faster.text.startswith("No, slower: 5 devices take 50.0 %")
    assert "6.00 ms (T/N, predicted), with 8 micro-batches 9.00 ms" in faster.text


def test_a_faster_one_is_a_yes():
    _, faster = answers(devices_evidence((0.03, 0.021, 0.01)))
    assert faster.text.startswith("Yes: 5 devices take")


def test_an_equal_one_is_no_difference():
    _, faster = answers(devices_evidence((0.02, 0.02, 0.02)))
    assert faster.text.startswith("No difference that can be told between 1 and 5")


def test_a_real_device_beside_logical_ones_counts_tensors_as_they_do():
    evidence = devices_evidence()
    layers = tuple(replace(layer, device="cuda:0") for layer in evidence.inspections[0].layers)
    busy = tuple(replace(row, device="cuda:0") for row in evidence.inspections[0].timeline)
    held = replace(make_parts(), peak_bytes=5000, at_peak={"weights": 5000})
    alone = replace(
        evidence.inspections[0],
        layers=layers,
        timeline=busy,
        transfers=(),
        device_memory=(DeviceMemoryRow("cuda:0", 90000),),
        memory=held,
    )
    found = arms_along(replace(evidence, inspections=(alone, *evidence.inspections[1:])), ALL, "devices", DEVICES)
    assert found[1][1] is not None and found[1][1].devices[0].peak_bytes == 5000
