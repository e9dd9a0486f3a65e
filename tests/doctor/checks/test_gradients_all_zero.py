"""Tests of the check for gradients that are all zero."""

import pytest
from case_factory import Sheet, make_case

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.gradients_all_zero import examine
from scalewise.records.notes import GradientsNote


def steps(count=4, loss=0.0, zeroed=False, gained=None, **gradients):
    sheet = Sheet()
    for number in range(count):
        sheet.batch().forward().backward(loss=loss if number % 2 else loss * 1.5, gained=gained)
        if zeroed:
            sheet.zero(had_gradients=True)
        sheet.add(GradientsNote, **gradients)
        sheet.step(gradients=gradients.get("present", 4))
    return sheet


def test_one_class_is_named_as_the_cause():
    (finding,) = examine(make_case(steps(zero=True, classes=1), ranks=2))
    assert "only one class" in finding.sentence and finding.price.value == 1.0
    assert any("the loss is 0 in every step" in fact for fact in finding.evidence)


def test_zeros_without_a_known_cause_are_found_with_likely_ones():
    (finding,) = examine(make_case(steps(zero=True, loss=2.0)))
    assert any("dead ReLU" in fact for fact in finding.evidence)
    assert any("changes with the data only" in fact for fact in finding.evidence)


def test_an_optimizer_whose_parameters_have_no_gradient_is_found():
    (finding,) = examine(make_case(steps(present=0)))
    assert "backward does not reach them" in finding.sentence


def test_one_step_with_a_gradient_is_enough_to_say_nothing():
    assert examine(make_case(steps(zero=True).add(GradientsNote, zero=False))) == ()


def test_one_rank_with_a_gradient_is_enough_to_say_nothing():
    assert examine(make_case(steps(zero=True), steps(zero=False))) == ()


def test_gradients_that_are_thrown_away_before_the_step_are_not_its_business():
    assert examine(make_case(steps(present=0, zeroed=True))) == ()
    assert examine(make_case(steps(present=0, gained=1.0))) == ()


def test_too_few_steps_are_not_judged():
    with pytest.raises(Abstain, match="3 steps"):
        examine(make_case(steps(2, zero=True)))
