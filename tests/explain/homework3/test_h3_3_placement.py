"""H3.3: a rule is told only where it holds."""

from course_evidence import devices_evidence
from scalewise.explain.homework3.h3_3_placement import answers


def test_even_blocks_have_a_rule():
    (answer,) = answers(devices_evidence())
    assert answer.text.startswith("Device = `i * N // depth` for layer i, with depth = 20 and N = 2 and 5:")
    assert "10 on logical:0 and 10 on logical:1 of 2 devices" in answer.text
    assert "all 20 layers" in answer.condition


def test_layers_dealt_out_one_by_one_have_none_of_the_rules():
    (answer,) = answers(devices_evidence(alternate=True))
    assert "i * N // depth" not in answer.text
    assert "broken up" in answer.text
