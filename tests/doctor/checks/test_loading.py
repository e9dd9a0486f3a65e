"""Tests of what is said of a batch's way: made by a loader, and then copied to a GPU, or not."""

import pytest
from case_factory import Sheet, make_case, make_work
from test_gpu_checks import MILLISECOND, Loop

from scalewise.doctor.queries.times import copying
from scalewise.records.notes import CopyNote

ON_GPU = {"model": {"devices": ("cuda:0",)}}


def case(*copies, rows=(), **run):
    """A loop with a loader; the copies of every step."""

    def act(sheet: Sheet) -> None:
        sheet.batch()
        for values in copies:
            sheet.add(CopyNote, line="x = x.to(device)", **values)

    sheet = Loop().steps_of(40, act)
    for row in rows:
        sheet.row(row)
    return make_case(sheet, ranks=1, **run)


def test_on_the_cpu_a_batch_is_not_copied():
    assert copying(case()) == "No copy: the batch stays on the CPU"


def test_a_stand_in_for_a_gpu_tells_no_time_of_a_copy():
    assert "not measured: a CPU stands in" in copying(case({}, on_cpu=True, **ON_GPU))


def test_the_copies_of_a_step_add_up_on_the_host():
    told = copying(case({"duration_ns": 2 * MILLISECOND}, {"duration_ns": MILLISECOND}, **ON_GPU))
    assert told == "Copying to the GPU takes 3.00 ms of a step on the host"


def test_the_gpus_own_records_of_a_copy_stand_beside_the_hosts():
    work = make_work(copies={"HtoD (Pinned -> Device)": (2, 3 * MILLISECOND), "DtoH (Device -> Pinned)": (2, 9)})
    told = copying(case({"duration_ns": MILLISECOND}, rows=[work], **ON_GPU))
    assert told == "Copying to the GPU takes 1.00 ms of a step on the host, 1.50 ms by the GPU's records"


@pytest.mark.parametrize("copies", [[], [{"again": 3}]])
def test_a_copy_that_is_none_of_the_batch_is_not_told_as_one(copies):
    assert copying(case(*copies, **ON_GPU)).startswith("No copy of the batch to the GPU was seen")
