"""H3.1: layers and hand-over as they were seen, with the script's own line where it was recorded."""

from course_evidence import depth_evidence
from scalewise.explain.homework3.h3_1_hand_over import answers


def test_layers_of_each_device_are_counted():
    layers, _ = answers(depth_evidence())
    assert layers.text == "With DEPTH=6: 3 on logical:0 and 3 on logical:1, so evenly."


def test_the_line_is_quoted_as_it_was_when_the_run_was_made():
    _, where = answers(depth_evidence(text="x = x.to(layer_device)  # the hand-over"))
    assert "Line 7 of mp.py: `x = x.to(layer_device)` copied once" in where.text
    assert "logical:0 to logical:1" in where.text


def test_a_line_that_was_not_recorded_leaves_its_number():
    _, where = answers(depth_evidence())
    assert "Line 7 of mp.py copied once" in where.text
