"""Tests of labels: a row stands only where the script did what the suite had set for it."""

from dataclasses import replace
from typing import Any

import pytest

from evidence_factories import arm, make_evidence
from scalewise.analysis.evidence import Evidence
from scalewise.course.seen import label_refusal, refusals
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
