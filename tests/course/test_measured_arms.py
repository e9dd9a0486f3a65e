"""Tests of labels: a row stands only where the script did what the suite had set for it."""

from dataclasses import replace
from typing import Any

import pytest

from course_evidence import course_arm, course_inspection, put_together, reduces
from evidence_factories import arm, make_evidence
from factories import make_outcome
from inspection_factory import make_parts
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.fits import spread_of
from scalewise.course.measured_arms import (
    HEAP,
    all_reduces,
    contrast,
    label_refusal,
    memory_sign,
    missing_reason,
    numbers_along,
    parts_of,
    peak_of,
    refusals,
    usable,
    witness_notes,
)
from scalewise.records.rows import EndRow

ENV = {"DIM": "64", "DEPTH": "2", "BATCH": "32", "STEPS": "40"}
WEIGHTS = 2 * 64 * 65


def a_run(seconds: float = 0.01, ranks: int = 1, *, experiment: str = "exp", **changes: Any):
    more = {"samples_in_all": 32, "model": {"parameters": WEIGHTS}, "env": ENV, **changes}
    return arm(experiment, [seconds] * 40, ranks, **more)


def told(evidence: Evidence, index: int = 0) -> str:
    return label_refusal(evidence, evidence.rows("exp")[index])


def test_a_script_that_does_what_was_set_is_not_refused():
    assert told(make_evidence(a_run())) == ""
    assert refusals(make_evidence(a_run()), "exp") == ()


def test_biases_may_be_left_out():
    assert told(make_evidence(a_run(model={"parameters": 2 * 64 * 64}))) == ""


def test_a_run_without_constants_has_no_label_that_could_be_false():
    assert told(make_evidence(a_run(env={}))) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": {"parameters": 2 * 16 * 17}}, "does not read DIM or DEPTH: it was to train 64 x 2"),
        ({"model": {"parameters": 2 * 16 * 17}}, "as many as 16 x 2"),
        ({"model": {"parameters": 1001}}, "1\u202f001 parameters, another model"),
        ({"samples_in_all": 16}, "does not read BATCH: it was set to 32, and a step took 16 samples"),
        ({"env": {**ENV, "STEPS": "100"}}, "does not read STEPS: it was set to 100, and 40 optimizer steps were made"),
        ({"env": {**ENV, "ACCUM_STEPS": "4"}}, "ACCUM_STEPS: it was set to 4, and an optimizer step held 1 backward"),
        (
            {"env": {**ENV, "PRECISION": "float16"}},
            "PRECISION: it was set to float16, and the model computed in float32",
        ),
        ({"env": {**ENV, "DELAY": "1"}}, "DELAY: it was set to 1 s, and a whole step took less than that"),
    ],
)
def test_what_was_seen_speaks_against_the_label(changes, words):
    assert words in told(make_evidence(a_run(**changes)))


def test_a_batch_per_rank_is_told_from_a_constant_that_is_not_read():
    assert "2 ranks took 64 samples a step, 32 each" in told(make_evidence(a_run(ranks=2, samples_in_all=64)))


def test_autocast_is_the_precision_that_counts():
    run = a_run(env={**ENV, "PRECISION": "float16"}, step={"autocast": "float16"})
    assert told(make_evidence(run)) == ""


def test_accumulated_steps_may_count_micro_batches_or_optimizer_steps():
    run = a_run(env={**ENV, "STEPS": "160", "ACCUM_STEPS": "4"}, step={"micro_batches": 4})
    assert told(make_evidence(run)) == ""


def test_a_delay_that_changes_nothing_is_not_read():
    runs = [a_run(0.02, env={**ENV, "DELAY": text}, axes={"delay": text}) for text in ("0", "0.04")]
    assert "with 0.04 s a step takes no longer than with 0" in told(make_evidence(*runs), 1)
    assert told(make_evidence(*runs), 0) == ""
    runs[1] = a_run(0.06, env={**ENV, "DELAY": "0.04"}, axes={"delay": "0.04"})
    assert told(make_evidence(*runs), 1) == ""


def test_two_rows_that_were_to_differ_and_did_the_same_work():
    runs = [a_run(env={**ENV, "BATCH": text}, axes={"batch": text}, samples_in_all=None) for text in ("32", "64")]
    assert told(make_evidence(*runs)) == ""  # samples were not seen, so nothing speaks against it
    cases = [a_run(env={**ENV, "DIM": text}, axes={"case": text}) for text in ("62", "64")]
    assert "with DIM=64 and DIM=62 it did the same work" in told(make_evidence(*cases), 0)
    assert told(make_evidence(*cases), 1) == ""  # that one is what its label says


def test_ranks_that_the_script_did_not_see():
    run = a_run(ranks=2)
    alone = tuple(replace(one, start=replace(one.start, world_size=1)) for one in run.ranks if one.start)
    assert told(make_evidence(replace(run, ranks=alone))) == "2 ranks were started, and your script saw 1"


def test_each_reason_is_told_once_as_a_sentence():
    runs = [a_run(repeat=repeat, samples_in_all=16, axes={"case": str(repeat)}) for repeat in (0, 1)]
    assert refusals(make_evidence(*runs), "exp") == (
        "Refused: your script does not read BATCH: it was set to 32, and a step took 16 samples.",
    )


def test_a_run_without_an_end_has_no_number_of_steps():
    run = a_run(env={**ENV, "STEPS": "100"})
    cut = tuple(replace(one, end=None) for one in run.ranks)
    assert told(make_evidence(replace(run, ranks=cut))) == ""
    assert EndRow(40, None, {}).steps == 40


def test_of_several_world_sizes_the_largest_is_taken():
    evidence = put_together([course_arm("amp", 0.01, {"precision": "float32"}, ranks=n) for n in (1, 2)], [])
    row = usable(evidence, "amp", precision="float32")
    assert row is not None and row.ranks == 2


def test_a_hole_is_named_with_its_reason():
    failed = arm("amp", [], 2, axes={"precision": "float16"}, outcome=make_outcome("failed", "Rank 0 died."))
    evidence = make_evidence(failed)
    assert usable(evidence, "amp", precision="float16") is None
    assert (
        missing_reason(evidence, "amp", precision="float16") == "experiment amp, precision float16 failed (Rank 0 died)"
    )
    assert missing_reason(evidence, "amp", precision="bfloat16") == "experiment amp, precision bfloat16 was not run"


def test_an_unfinished_arm_is_called_that():
    evidence = make_evidence(arm("amp", [], 2, axes={"precision": "float16"}, unfinished=True))
    assert missing_reason(evidence, "amp", precision="float16").endswith("is not finished")


def test_arms_of_different_work_have_no_contrast():
    runs = [
        course_arm("amp", 0.01, {"precision": "float32"}),
        course_arm("amp", 0.01, {"precision": "float16"}, model={"parameters": 2000}),
    ]
    evidence = put_together(runs, [])
    one, two = (usable(evidence, "amp", precision=name) for name in ("float32", "float16"))
    assert contrast(evidence, one, two) is None
    assert contrast(evidence, one, None) is None


def test_seconds_and_share_of_a_contrast_agree():
    runs = [course_arm("no-sync", time, {"no_sync": n}) for n, time in ((1, 0.01), (0, 0.02))]
    evidence = put_together(runs, [])
    found = contrast(evidence, *(usable(evidence, "no-sync", no_sync=n) for n in (1, 0)))
    assert found is not None
    assert abs(found.seconds.value - 0.01) < 1e-9 and abs(found.change.value - 1.0) < 1e-9


def test_all_reduces_are_those_of_a_typical_step():
    evidence = put_together([course_arm("no-sync", 0.01, {"no_sync": 1}, collectives=reduces(3))], [])
    row = usable(evidence, "no-sync", no_sync=1)
    assert row is not None and all_reduces(evidence, row) == (6, 24000)
    assert row.step_seconds is not None and spread_of([row.step_seconds]) == 0.028


def test_arms_on_other_numbers_of_ranks_have_no_contrast():
    runs = [course_arm("amp", 0.01, {"precision": "float32"}, ranks=1), course_arm("no-sync", 0.02, {"no_sync": 1})]
    evidence = put_together(runs, [])
    assert contrast(evidence, usable(evidence, "amp"), usable(evidence, "no-sync")) is None


def test_an_axis_that_is_no_number_is_passed_over():
    runs = [course_arm("all-devices", 0.01, {"devices": value}, ranks=1) for value in ("auto", 5, 2)]
    evidence = put_together(runs, [])
    assert numbers_along(evidence, "all-devices", "devices", (1,)) == (2, 5)
    assert numbers_along(evidence, "two-devices", "depth", (6, 12)) == (6, 12)


def test_an_arm_that_did_not_do_what_its_label_says_is_refused():
    env = {"DIM": "64", "DEPTH": "2"}
    runs = [arm("codes", [0.01] * 40, 2, axes={"code": "mine"}, env=env, model={"parameters": 33})]
    evidence = make_evidence(*runs)
    assert usable(evidence, "codes", code="mine") is None
    assert missing_reason(evidence, "codes", code="mine").startswith("refused: your script does not read DIM or DEPTH")


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
