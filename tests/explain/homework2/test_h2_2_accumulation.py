"""H2.2b: observations and slopes follow the rows."""

from course_evidence import accum_evidence
from scalewise.explain.homework2.codes import ACCUMULATION
from scalewise.explain.homework2.h2_2_accumulation import points, slope_sentence


def test_more_micro_batches_that_cost_time_are_said_to():
    evidence = accum_evidence(per_micro_batch=0.001)
    assert "costs 1.00 ms" in slope_sentence(evidence, ACCUMULATION)
    last = points(evidence)[3]
    assert last.observation.startswith("micro-batch 1; 63.6 %")
    assert "more time than with 4; activations 125 B" in last.observation


def test_more_micro_batches_that_save_time_are_said_to():
    assert "saves 1.00 ms" in slope_sentence(accum_evidence(per_micro_batch=-0.001), ACCUMULATION)


def test_no_slope_is_no_price():
    evidence = accum_evidence(per_micro_batch=0.0)
    assert "cannot be told from nothing" in slope_sentence(evidence, ACCUMULATION)
    assert "than with 4, which cannot be told from none" in points(evidence)[3].observation


def test_a_missing_row_is_named_and_does_not_bend_the_line():
    evidence = accum_evidence(left_out=(16,))
    missing = next(one for one in points(evidence) if one.row is None) if len(points(evidence)) == 8 else None
    assert missing is None or missing.missing.endswith("was not run")
    assert "costs 1.00 ms" in slope_sentence(evidence, ACCUMULATION)
