"""Arms as answers need them: figures or the reason why not, and differences only between equal work."""

from course_evidence import course_arm, put_together, reduces
from evidence_factories import arm, make_evidence
from factories import make_outcome
from scalewise.analysis.line_fit import spread_of
from scalewise.course.selected_arms import (
    all_reduces,
    contrast,
    hole,
    numbers_along,
    usable,
)


def test_of_several_world_sizes_the_largest_is_taken():
    evidence = put_together([course_arm("amp", 0.01, {"precision": "float32"}, ranks=n) for n in (1, 2)], [])
    row = usable(evidence, "amp", precision="float32")
    assert row is not None and row.ranks == 2


def test_a_hole_is_named_with_its_reason():
    failed = arm("amp", [], 2, axes={"precision": "float16"}, outcome=make_outcome("failed", "Rank 0 died."))
    evidence = make_evidence(failed)
    assert usable(evidence, "amp", precision="float16") is None
    assert hole(evidence, "amp", precision="float16") == "experiment amp, precision float16 failed (Rank 0 died)"
    assert hole(evidence, "amp", precision="bfloat16") == "experiment amp, precision bfloat16 was not run"


def test_an_unfinished_arm_is_called_that():
    evidence = make_evidence(arm("amp", [], 2, axes={"precision": "float16"}, unfinished=True))
    assert hole(evidence, "amp", precision="float16").endswith("is not finished")


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
    assert hole(evidence, "codes", code="mine").startswith("refused: your script does not read DIM or DEPTH")
