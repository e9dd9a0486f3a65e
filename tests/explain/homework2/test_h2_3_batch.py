"""H2.3, batch: the product is that of what was seen, and the gradient shows whether the loss was divided."""

from course_evidence import accum_evidence
from scalewise.explain.homework2.h2_3_batch import answers


def test_the_arithmetic_is_that_of_the_samples():
    (answer,) = answers(accum_evidence())
    assert "8 x 4 x 2 = 64; 4 x 8 x 2 = 64; 2 x 16 x 2 = 64; 1 x 32 x 2 = 64" in answer.text
    assert "same in every row" in answer.text


def test_an_equal_gradient_shows_the_division():
    (answer,) = answers(accum_evidence())
    assert "same norm for ACCUM_STEPS 4 to 32" in answer.text
    assert "an error of 300 % to 3100 % (computed" in answer.text


def test_a_gradient_that_grows_with_accum_steps_shows_that_it_is_missing():
    (answer,) = answers(accum_evidence(norm_grows=True))
    assert "the loss is not divided" in answer.text
