"""Peaks by the best witness, and changes in words."""

from dataclasses import replace

import pytest

from course_evidence import course_arm, course_inspection, put_together
from inspection_factory import make_parts
from scalewise.course.memory import HEAP, memory_sign, parts_of, peak_of, witness_notes

PRECISION = {"precision": "float32"}


def test_on_cpu_ranks_the_inspected_run_is_the_witness():
    inspected = course_inspection("amp", PRECISION, memory=make_parts(), peak_bytes=20000)
    found = peak_of(put_together([course_arm("amp", 0.01, PRECISION)], [inspected]), "amp", **PRECISION)
    assert found is not None and found.bytes == 20000
    assert "inspected run" in found.witness


def test_nothing_seen_is_no_peak():
    evidence = put_together([course_arm("amp", 0.01, PRECISION)], [])
    assert peak_of(evidence, "amp", **PRECISION) is None
    assert parts_of(evidence, "amp", **PRECISION) is None


def test_a_peak_that_one_step_alone_has_is_not_taken_for_the_rule():
    peaks = (9000, 12000, 10000)
    rows = tuple(
        replace(make_parts(), step=step, peak_bytes=one, at_peak={"weights": one}) for step, one in enumerate(peaks)
    )
    run, inspected = course_inspection("amp", PRECISION, memory=rows[1], peak_bytes=15000)
    looked_at = replace(run, ranks=(replace(run.ranks[0], inspection=rows), *run.ranks[1:]))
    evidence = put_together([course_arm("amp", 0.01, PRECISION)], [(looked_at, inspected)])
    found = parts_of(evidence, "amp", **PRECISION)
    assert found is not None and (found.peak_bytes, found.outside_bytes) == (10000, 3000)


@pytest.mark.parametrize(
    ("before", "after", "sign"), [(1000, 1009, "same"), (1000, 991, "same"), (1000, 989, "less"), (1000, 1011, "more")]
)
def test_peaks_within_one_percent_are_the_same_everywhere(before, after, sign):
    assert memory_sign(before, after) == sign


def test_the_heap_of_a_process_is_told_apart_from_the_peak_of_tensors():
    (tensors,) = witness_notes(["most bytes that tensors held at once", "", "most bytes that tensors held at once"])
    (heap,) = witness_notes([HEAP])
    assert "not to be compared" not in tensors and "not to be compared" in heap
    assert witness_notes(["", ""]) == ()
