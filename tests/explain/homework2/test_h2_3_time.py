"""H2.3, time: the parts add up to the difference, and the larger cause is named."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_evidence import codes_evidence
from scalewise.explain.homework2.codes import ACCUMULATION, BOTH, MIXED
from scalewise.explain.homework2.h2_3_time import answers, halves_of, stages_of

TIME = st.floats(0.001, 0.1)


@settings(max_examples=20, deadline=None)
@given(st.tuples(TIME, TIME), st.tuples(TIME, TIME), st.tuples(TIME, TIME))
def test_every_sum_closes(one, two, three):
    evidence = codes_evidence({ACCUMULATION: one, MIXED: two, BOTH: three})
    halves = [halves_of(evidence, code) for code in (ACCUMULATION, MIXED, BOTH)]
    for half in halves:
        assert half is not None
        assert half.computing.value + half.synchronising.value == pytest.approx(half.step.value)
    stages = stages_of(evidence)
    for stage in stages:
        assert stage.computing.value + stage.synchronising.value == pytest.approx(stage.whole.value, abs=1e-12)
    assert sum(stage.whole.value for stage in stages) == pytest.approx(two[0] - one[0], abs=1e-8)


def test_precision_is_named_where_computing_makes_the_difference():
    (answer,) = answers(codes_evidence({ACCUMULATION: (0.02, 0.01), MIXED: (0.11, 0.10), BOTH: (0.11, 0.10)}))
    assert "From Code 1 to Code 3 the step gets 90.0 ms" in answer.text
    assert "Only that of precision can be told from nothing." in answer.text


def test_synchronisation_is_named_where_that_does():
    (answer,) = answers(codes_evidence({ACCUMULATION: (0.02, 0.01), MIXED: (0.11, 0.01), BOTH: (0.11, 0.01)}))
    assert "Only that of synchronisation can be told from nothing." in answer.text


def test_equal_codes_differ_in_nothing():
    (answer,) = answers(codes_evidence({ACCUMULATION: (0.02, 0.01), MIXED: (0.02, 0.01), BOTH: (0.02, 0.01)}))
    assert answer.text.count("Neither part can be told from nothing.") == 2


def test_the_same_bytes_in_all_codes_are_said():
    (answer,) = answers(codes_evidence())
    assert "same 7.81 KiB once per optimizer step" in answer.text


def test_one_rank_has_nothing_to_synchronise():
    (answer,) = answers(codes_evidence(ranks=1))
    assert "by synchronisation" not in answer.text
    assert "One rank has nobody to synchronise with" in answer.text
    assert "that part needs two" in answer.text
