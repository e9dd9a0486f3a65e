"""H2.1: the same curve is called the same, another one is not."""

from course_evidence import codes_evidence
from scalewise.explain.homework2.h2_1_same_loss import answers


def test_equal_losses_without_amp_and_near_ones_with_it_train_alike():
    (answer,) = answers(codes_evidence(loss=1.001))
    assert answer.text.startswith("Yes.")
    assert "bit for bit" in answer.text and "1.0e-03 of them" in answer.text


def test_one_different_bit_without_amp_is_a_no():
    (answer,) = answers(codes_evidence(plain_loss=1.0 + 2**-52))
    assert answer.text.startswith("No.")
    assert "something other than precision" in answer.text


def test_losses_beyond_the_tolerance_with_amp_are_a_no():
    (answer,) = answers(codes_evidence(loss=1.1))
    assert answer.text.startswith("No.")
    assert "more than rounding alone explains" in answer.text
