"""The sections of homework 1: every table of the course is there, full or with its hole named, and nothing raises."""

from dataclasses import replace

import pytest

from evidence_factories import arm, make_evidence, make_inspection
from homework1_evidence import link, link_in_training, rehearsal, strong
from scalewise.explain.answer import Answer
from scalewise.records.inspection import BusyRow, DeviceMemoryRow, LayerRow
from scalewise.report.document import Figure, Table
from scalewise.report.draw import draw
from scalewise.report.sections import (
    homework1_balance,
    homework1_batch,
    homework1_delay,
    homework1_devices,
    homework1_scaling,
    homework1_setup,
    homework1_waiting,
)

MODULES = (
    homework1_setup,
    homework1_scaling,
    homework1_balance,
    homework1_devices,
    homework1_delay,
    homework1_batch,
    homework1_waiting,
)
TABLES = {
    "h1-1-seeds",
    "h1-2-strong-scaling",
    "h1-3-model-size",
    "h1-4-dp-ddp",
    "h1-5a-delay",
    "h1-5b-batch",
    "h1-5c-imbalance",
}


def everything():
    """All experiments of the suite: two real rank counts, and four ranks oversubscribed."""
    runs = [*strong(exchange=0.009), link(), *strong("delay", removed=False, axes={"delay": 0})]
    runs += strong("strong-scaling", ranks=(8,), oversubscribed=True)
    runs += strong("delay", overhead=0.011, removed=False, axes={"delay": 0.01})
    for batch in (32, 64, 128, 256):
        runs += strong("batch-scaling", batch=batch, removed=False, axes={"batch": batch})
    for case, dim in (("small", "1024"), ("large", "2048")):
        asked = {"DIM": "8192"} if case == "large" else {}
        more = {"axes": {"case": case}, "env": {"DIM": dim, "DEPTH": "2"}, "asked": asked, "shrink_rule": "a rule"}
        runs += strong("model-size", exchange=0.004, **more)
    for seed in ("0", "none"):
        runs += [arm("seeds", [0.01] * 40, 2, repeat=repeat, axes={"seed": seed}) for repeat in (0, 1)]
    for late in (0, 0.02):
        runs.append(arm("imbalance", [0.01 + late] * 40, 2, axes={"imbalance": late}))
    runs += [arm("data-parallel", [0.01] * 40, emulated=True), arm("ddp", [0.01] * 40, 2)]
    twin = arm("data-parallel", [0.01] * 10, inspect=True)
    runs.append(replace(twin, spec=replace(twin.spec, name="inspected")))
    devices = ("logical:0", "logical:1")
    inspection = make_inspection(
        "inspected",
        layers=(LayerRow("0", "Linear", devices[0], 10),),
        timeline=tuple(BusyRow(1, one, "forward", "0", 0, 10) for one in devices),
        device_memory=tuple(DeviceMemoryRow(one, 2**20) for one in devices),
    )
    return make_evidence(*runs, inspections=(inspection,))


def blocks(section, kind):
    return [block for block in section.blocks if isinstance(block, kind)]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_nothing_measured_gives_a_table_with_its_hole_named(module):
    section = module.build(make_evidence())
    tables = blocks(section, Table)
    assert all(table.notes or any(cell.mark == "missing" for row in table.rows for cell in row) for table in tables)
    assert all("Not answered" in answer.text for answer in blocks(section, Answer))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_rows_fit_their_columns_and_name_their_runs(module):
    for table in blocks(module.build(everything()), Table):
        assert table.rows
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert len(table.runs) == len(table.rows) and all(table.runs)


def test_every_table_of_the_course_is_there_and_every_question_is_answered():
    sections = [module.build(everything()) for module in MODULES]
    ids = {table.id for section in sections for table in blocks(section, Table)}
    assert ids >= TABLES
    assert len({figure.id for section in sections for figure in blocks(section, Figure)}) == 7
    answers = [answer for section in sections for answer in blocks(section, Answer)]
    assert [one.text for one in answers if "Not answered" in one.text and one.row != "H1.4"] == []
    assert all(one.condition and one.rests_on for one in answers if "Not answered" not in one.text)


def test_an_oversubscribed_row_has_a_time_and_no_speedup():
    (table,) = [one for one in blocks(homework1_scaling.build(everything()), Table) if one.id == "h1-2-strong-scaling"]
    time, speedup, efficiency = table.rows[-1][1:4]
    assert time.mark == "oversubscribed" and time.number
    assert speedup.number is None and efficiency.number is None
    assert "not scaling" in speedup.note


def test_a_shrunk_case_says_both_sizes_and_the_rule():
    table = blocks(homework1_balance.build(everything()), Table)[0]
    assert any("2048 x 2 (asked 8192 x 2)" in row[0].text for row in table.rows)
    assert any("a rule" in note for note in table.notes)


def test_emulated_devices_carry_their_mark():
    (table,) = blocks(homework1_devices.build(everything()), Table)
    assert [row[4].mark for row in table.rows] == ["emulated", "emulated", "measured", "measured"]


def predicted_on_two_cores():
    """One and two ranks measured, two and eight rehearsed, of both experiments."""
    runs = [*strong(exchange=0.0081, ranks=(1, 2)), link_in_training()]
    runs += [rehearsal(ranks, 1e-3 + 64e-4 / ranks) for ranks in (2, 8)]
    for case in ("small", "large"):
        axes = {"case": case}
        runs += strong("model-size", exchange=0.0081, ranks=(1, 2), axes=axes, env={"DIM": "64", "DEPTH": "2"})
        runs += [rehearsal(ranks, 1e-3 + 64e-4 / ranks, experiment="model-size", axes=axes) for ranks in (2, 8)]
    return make_evidence(*runs)


def test_predicted_ranks_stand_below_the_measured_ones_and_are_marked():
    table = blocks(homework1_scaling.build(predicted_on_two_cores()), Table)[0]
    assert [row[0].text for row in table.rows] == ["1", "2", "8"]
    assert [row[1].mark for row in table.rows] == ["measured", "measured", "predicted"]
    assert all(cell.mark == "predicted" and cell.low < cell.number < cell.high for cell in table.rows[-1][1:])
    assert table.runs[-1] == ("strong-scaling-rehearse8",)
    assert "90 % intervals" in table.notes[-1]


def test_predicted_ranks_of_a_case_stand_with_its_measured_ones():
    table = blocks(homework1_balance.build(predicted_on_two_cores()), Table)[0]
    assert [(row[0].text.split()[0], row[1].text, row[2].mark) for row in table.rows] == [
        (case, ranks, mark)
        for case in ("small", "large")
        for ranks, mark in (("1", "measured"), ("2", "measured"), ("8", "predicted"))
    ]
    assert "as in H1.2" in table.notes[-1] and "large 2 ranks" in table.notes[-1]


def test_the_figure_tells_predicted_from_measured():
    section = homework1_scaling.build(predicted_on_two_cores())
    (figure,) = [one for one in blocks(section, Figure) if one.id == "h1-2-speedup"]
    assert {one.name: (one.style, one.x) for one in figure.plot.series if one.style != "model"} == {
        "ideal": ("ideal", (1.0, 2.0, 8.0)),
        "measured": ("measured", (1.0, 2.0)),
        "predicted": ("predicted", (8.0,)),
    }
    assert "predicted ones of 90 %" in figure.caption and draw(figure)
