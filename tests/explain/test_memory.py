"""Peaks by the best witness, and changes in words."""

from dataclasses import replace

import pytest

from course_evidence import course_arm, course_inspection, put_together
from inspection_factory import make_inspection, make_parts
from scalewise.analysis.memory_parts import MemoryChange, MemoryParts
from scalewise.explain.memory import (
    change_of,
    memory_word,
    outside_words,
    parts_of,
    parts_phrase,
    passing_words,
    peak_of,
    rebuilt_words,
)
from scalewise.records.inspection import LayerRow

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
    assert change_of(None, None) is None


@pytest.mark.parametrize(("after", "word"), [(1000, "the same"), (1005, "the same"), (1100, "more"), (900, "less")])
def test_a_percent_is_no_difference(after, word):
    assert memory_word(1000, after) == word


def test_parts_are_told_largest_first_with_the_rest():
    change = MemoryChange({"weights": 0, "activations": -100, "half-precision copies": 2000}, 50, 1950)
    assert parts_phrase(change) == (
        "half-precision copies 1.95 KiB more, activations 100 B less, the rest of the peak 50 B more"
    )


def test_a_rest_of_one_layers_size_is_taken_for_a_gradient_in_passing():
    inspected = make_inspection(layers=(LayerRow("layers.0", "Linear", "cpu", 1000),))
    parts = {"activations": 0}
    assert "one layer's gradient" in passing_words(MemoryChange(parts, 1100, 1100), inspected)
    assert passing_words(MemoryChange(parts, 5000, 5000), inspected) == ""
    assert passing_words(None, inspected) == ""


def test_work_in_progress_of_half_a_layers_size_is_a_gradient_in_half_precision():
    inspected = make_inspection(layers=(LayerRow("layers.0", "Linear", "cpu", 1000),))
    change = MemoryChange({"activations": 0, "work in progress": 490}, 0, 490)
    assert "in half precision, 500 B" in passing_words(change, inspected)


def test_memory_that_is_no_tensor_is_told_only_where_there_is_some():
    def parts(outside):
        return MemoryParts({}, {}, 1000, 0, True, outside)

    assert outside_words([parts(0), None]) == ""
    assert "Not drawn: 2.93 KiB to 3.91 KiB" in outside_words([parts(3000), parts(4000)])


@pytest.mark.parametrize(("buckets", "said"), [(8000, True), (4100, False)])
def test_a_peak_with_twice_the_buckets_is_that_of_their_rebuilding(buckets, said):
    once, other = (MemoryParts({"DDP buckets": size}, {}, 1, 0, True) for size in (4000, buckets))
    assert bool(rebuilt_words(once, other)) is said
    assert rebuilt_words(once, None) == ""


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
