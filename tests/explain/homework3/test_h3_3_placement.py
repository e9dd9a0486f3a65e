"""H3.3: a rule is told only where it holds."""

from course_evidence import devices_evidence
from scalewise.explain.homework3.h3_3_placement import answers


def test_even_blocks_have_a_rule():
    (answer,) = answers(devices_evidence())
    assert "On 2 devices (10 on logical:0 and 10 on logical:1)" in answer.text
    assert "device = i * N // depth, with depth = 20, N = 5" in answer.text


def test_layers_dealt_out_one_by_one_have_none_of_the_rules():
    (answer,) = answers(devices_evidence(alternate=True))
    assert "i * N // depth" not in answer.text
    assert "broken up" in answer.text
