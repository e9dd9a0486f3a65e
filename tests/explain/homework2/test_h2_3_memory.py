"""H2.3, memory: copies against activations decide what AMP does to the peak."""

from course_evidence import codes_evidence
from scalewise.explain.homework2.h2_3_memory import answers


def test_copies_that_outweigh_the_activations_explain_a_higher_peak():
    (answer,) = answers(codes_evidence(half_copy=2000, activation=500))
    assert "1.46 KiB more at the peak" in answer.text
    assert "so AMP takes memory" in answer.text


def test_activations_that_outweigh_the_copies_explain_a_lower_one():
    (answer,) = answers(codes_evidence(half_copy=100, activation=500))
    assert "400 B less at the peak" in answer.text
    assert "AMP saves memory" in answer.text


def test_accumulation_keeps_one_micro_batch_of_activations():
    (answer,) = answers(codes_evidence())
    assert "Only one micro-batch's activations live at a time" in answer.text
