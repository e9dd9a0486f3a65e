"""H3.2: the sign of the slope decides the answer."""

from course_evidence import depth_evidence
from scalewise.explain.homework3.h3_2_depth import answers


def test_a_step_that_grows_with_depth_is_a_no():
    (answer,) = answers(depth_evidence(per_layer=0.005))
    assert answer.text.startswith("No. Every layer adds 5.00 ms")
    assert "take turns" in answer.text
    assert "above 0" in answer.condition


def test_a_step_that_shrinks_is_a_yes():
    (answer,) = answers(depth_evidence(per_layer=-0.001))
    assert answer.text.startswith("Yes, here")


def test_a_level_step_cannot_tell():
    (answer,) = answers(depth_evidence(per_layer=0.0))
    assert answer.text.startswith("It cannot be told")


def test_devices_that_work_together_do_not_take_turns():
    (answer,) = answers(depth_evidence(together=True))
    assert "take turns" not in answer.text
