"""What stands under a table: the size it was measured with, how often, and brackets only where there are some."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from course_evidence import (
    accum_evidence,
    accumulation_evidence,
    beside_evidence,
    codes_evidence,
    course_arm,
    depth_evidence,
    devices_evidence,
    growing_evidence,
    overflow_evidence,
    precision_evidence,
    put_together,
    scaler_evidence,
)
from evidence_factories import make_evidence
from scalewise.analysis.evidence import Evidence
from scalewise.course import gpus
from scalewise.course.homework import pages_of
from scalewise.course.page_pieces import BRACKET, gpu_rows_heading, setting, why_lr
from scalewise.report.build_document import section_modules
from scalewise.report.document import Table


@pytest.fixture(autouse=True)
def no_records(monkeypatch):
    monkeypatch.setattr(gpus, "shipped", lambda: None)


def merged(*parts: Evidence) -> Evidence:
    runs = {run.spec.name: run for part in reversed(parts) for run in part.loaded.runs}
    seen = {one.run: one for part in reversed(parts) for one in part.inspections}
    return make_evidence(*runs.values(), inspections=tuple(seen.values()))


WHOLE = {
    "practical7": lambda: merged(
        accumulation_evidence(),
        precision_evidence(),
        scaler_evidence(),
        make_evidence(*growing_evidence(), *overflow_evidence()),
    ),
    "homework2": lambda: merged(
        codes_evidence(), accum_evidence(), beside_evidence(), make_evidence(*growing_evidence())
    ),
    "homework3": lambda: merged(depth_evidence(), devices_evidence()),
}


def tables(suite: str) -> Iterator[Table]:
    for module in section_modules(pages_of(suite)):
        yield from (block for block in module.build(WHOLE[suite]()).blocks if isinstance(block, Table))


@pytest.mark.parametrize("suite", WHOLE)
def test_brackets_are_explained_under_tables_that_have_some_and_under_no_others(suite):
    for table in tables(suite):
        bracketed = any(cell.low is not None for row in table.rows for cell in row)
        if table.caption:
            assert (BRACKET in table.caption) == bracketed, table.title


@pytest.mark.parametrize("suite", WHOLE)
def test_a_change_is_not_told_as_a_share_of_the_step(suite):
    for table in tables(suite):
        for column in table.columns:
            if "gainst" in column.title:
                assert column.unit == "% more time", column.title


def test_arms_that_were_measured_less_often_are_told():
    three = [course_arm("no-sync", 0.01, {"no_sync": 1}, ranks=2) for _ in range(3)]
    three = [replace(run, spec=replace(run.spec, repeat=at, name=f"n{at}")) for at, run in enumerate(three)]
    evidence = put_together([*three, course_arm("division", 0.01, {"divide": 0})], [])
    assert "measured 1 to 3 times" in setting(evidence, "no-sync", "division")
    assert "measured 3 times" in setting(evidence, "no-sync")


def test_a_model_that_was_made_smaller_is_not_said_to_fit_no_memory():
    run = course_arm("amp", 0.01, {"precision": "float32"}, env={"DIM": "512"})
    smaller = replace(run, spec=replace(run.spec, asked={"DIM": "1024"}))
    found = setting(put_together([smaller], []), "amp")
    assert found.startswith("DIM 512 (course: 1024; smaller for short steps)")
    assert "fit" not in found


def test_rows_of_gpus_say_their_own_size():
    step = gpus.GpuStep(2, None, "measured", None, None, 0.0, {"DIM": "1024", "STEPS": "60"}, "")  # type: ignore[arg-type]
    assert gpu_rows_heading("On two NVIDIA H200", [step], "DIM", "STEPS") == "On two NVIDIA H200, DIM 1024, 60 steps"


def test_a_large_lr_is_explained_only_where_one_was_set():
    assert why_lr(put_together([course_arm("codes", 0.01, {})], []), "codes") == ()
    (told,) = why_lr(put_together([course_arm("codes", 0.01, {}, env={"LR": "10"})], []), "codes")
    assert told.startswith("LR 10: ")
