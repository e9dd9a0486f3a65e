"""H2.3, memory: copies against activations decide what AMP does to the peak."""

from dataclasses import replace

from course_evidence import codes_evidence
from scalewise.explain.homework2.h2_3_memory import answers
from scalewise.records.inspection import LayerRow


def test_copies_that_outweigh_the_activations_explain_a_higher_peak():
    (answer,) = answers(codes_evidence(half_copy=2000, activation=500))
    assert "1.46 KiB more at the peak" in answer.text
    assert "so AMP takes memory" in answer.text


def test_activations_that_outweigh_the_copies_explain_a_lower_one():
    (answer,) = answers(codes_evidence(half_copy=100, activation=500))
    assert "400 B less at the peak" in answer.text
    assert "AMP saves memory" in answer.text


def test_copies_that_are_gone_at_the_peak_are_not_blamed_for_it():
    evidence = codes_evidence()
    found = tuple(replace(one, memory=at_peak(one), layers=LAYERS) for one in evidence.inspections)
    (answer,) = answers(replace(evidence, inspections=found))
    assert "The work in progress is about one layer's gradient in half precision" in answer.text
    assert "autocast's copies of the weights (1.95 KiB) are freed by then" in answer.text
    assert "so AMP takes memory" not in answer.text


LAYERS = (LayerRow("layers.0", "Linear", "cpu", 4000),)


def at_peak(inspected):
    """Code 3 holds half of the layer's gradient more than Code 1 when it holds most."""
    both = "practical5_single" in inspected.run
    work = 2000 if both else 0
    held = {"weights": 4000, "gradients": 4000, "buckets": 4000, "other": work}
    half = 2000 if both else 0
    return replace(inspected.memory, half_copy_bytes=half, peak_bytes=12000 + work, at_peak=held)


def test_accumulation_keeps_one_micro_batch_of_activations():
    (answer,) = answers(codes_evidence())
    assert "Only one micro-batch's activations live at a time" in answer.text
