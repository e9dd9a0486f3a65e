"""H1.4: what device 0 does, holds and moves decides the answers; logical devices are never compared by time."""

from dataclasses import replace

import pytest

from evidence_factories import arm, make_evidence, make_inspection
from factories import quiet_sample
from scalewise.explain.homework1.devices import DDP, DP, alone_share, busy_shares, comparison
from scalewise.explain.homework1.h1_4 import answers
from scalewise.records.inspection import BusyRow, DeviceMemoryRow, LayerRow, TransferRow
from scalewise.records.machine import GpuSample

MIB = 2**20


def inspected(first=(0, 100), second=(0, 60), memory=(300, 100), prefix="logical:"):
    names = [f"{prefix}0", f"{prefix}1"]
    stretches = [
        BusyRow(3, name, "forward", "layer", begin, end)
        for name, (begin, end) in zip(names, (first, second), strict=True)
    ]
    return make_inspection(
        "data-parallel-inspect",
        layers=(LayerRow("layer", "Linear", names[0], 4 * MIB),),
        transfers=(
            TransferRow(3, "forward", names[0], names[1], 8 * MIB, "dp.py", 10),
            TransferRow(3, "backward", names[1], names[0], 8 * MIB, "", 0),
        ),
        timeline=tuple(stretches),
        device_memory=tuple(DeviceMemoryRow(name, size * MIB) for name, size in zip(names, memory, strict=True)),
    )


def compared(inspection=None, dp=0.010, ddp=0.010, samples=(), **changes):
    twin = arm("data-parallel", [0.01] * 10, mode="python", inspect=True)
    runs = [
        arm(
            "data-parallel", [dp * (1 + 0.002 * (i % 5)) for i in range(40)], mode="python", samples=samples, **changes
        ),
        arm(
            "ddp",
            [ddp * (1 + 0.002 * (i % 5)) for i in range(40)],
            2,
            step={"collectives": {"all_reduce": (2, 8 * MIB)}},
            samples=(quiet_sample(), quiet_sample()),
        ),
    ]
    twin = replace(twin, spec=replace(twin.spec, name="data-parallel-inspect"))
    return make_evidence(*runs, twin, inspections=(inspection,) if inspection else ())


def test_busy_shares_and_time_alone_come_from_the_timeline():
    shares = busy_shares(inspected())
    assert shares == pytest.approx({"logical:0": 1.0, "logical:1": 0.6})
    assert alone_share(inspected()) == pytest.approx(0.4)
    assert alone_share(make_inspection("x")) is None


def test_a_first_device_that_does_and_holds_more_binds():
    bound, _, _ = answers(compared(inspected()))
    assert bound.text.startswith("The first device carries more work and memory")
    assert "3.00 times the memory" in bound.text
    assert "40 % of the working time every other device waits for it" in bound.text
    assert "2 of the 2 copies" in bound.text
    assert "Logical devices stood for GPUs" in bound.text


def test_an_even_share_does_not_bind():
    bound, _, _ = answers(compared(inspected(second=(0, 100), memory=(100, 100))))
    assert bound.text.startswith("In this run it is not")


def test_the_bytes_of_both_methods_are_compared():
    _, design, _ = answers(compared(inspected()))
    assert "moves 16.0 MiB" in design.text and "reduces 8.00 MiB" in design.text
    assert "no device is special" in design.text


def test_logical_devices_are_judged_by_time_alone_not_by_step_times():
    _, _, wasteful = answers(compared(inspected(), dp=0.001))
    assert wasteful.text.startswith("Not with this model and batch, unless more than 10 %")
    _, _, fine = answers(compared(inspected(second=(0, 95)), dp=1.0))
    assert fine.text.startswith("With this model and batch: only 5.00 %")


def test_real_devices_are_judged_by_step_times():
    real = inspected(prefix="cuda:")
    assert answers(compared(real, dp=0.0101))[2].text.startswith("Here: its step is")
    assert answers(compared(real, dp=0.030))[2].text.startswith("Not here: its step is")


def test_utilisation_of_real_gpus_is_what_nvml_says():
    gpus = tuple(GpuSample(index, share, 0, None, None, None, ()) for index, share in ((0, 0.9), (1, 0.4)))
    found = comparison(compared(inspected(prefix="cuda:"), samples=(quiet_sample(gpus=gpus),)))
    assert [(use.utilisation, use.utilisation_by) for use in found.uses(DP)] == [(0.9, "NVML"), (0.4, "NVML")]
    assert [use.utilisation_by for use in found.uses(DDP)] == ["busy cores", "busy cores"]


def test_without_an_inspected_run_the_hole_is_named():
    assert "data-parallel has no inspected run" in answers(compared())[0].text


def test_time_between_the_layers_is_the_inspections_own_and_does_not_count():
    gap = BusyRow(3, "logical:0", "optimizer", "", 10_000, 10_100)
    found = inspected()
    shares = busy_shares(replace(found, timeline=(*found.timeline, gap)))
    assert shares == pytest.approx({"logical:0": 1.0, "logical:1": 0.3})
