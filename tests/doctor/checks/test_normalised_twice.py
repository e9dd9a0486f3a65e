"""Tests of the check for losses that are given probabilities."""

import pytest
from case_factory import Sheet, make_case

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.normalised_twice import examine
from scalewise.records.notes import GradientsNote, TwiceNote


def test_a_softmax_before_cross_entropy_is_found_once_with_the_floor_of_the_loss():
    sheet = Sheet().windows(3).add(TwiceNote, line="loss.backward()").add(GradientsNote, classes=10)
    (finding,) = examine(make_case(sheet.add(TwiceNote, line="loss.backward()")))
    assert finding.severity == "wrong" and "once more" in finding.sentence
    assert any("cannot fall below 1.461" in fact for fact in finding.evidence)


def test_a_sigmoid_before_the_loss_with_logits_is_found():
    note = {"loss": "binary_cross_entropy_with_logits", "before": "sigmoid"}
    (finding,) = examine(make_case(Sheet().windows(3).add(TwiceNote, **note)))
    assert "sigmoid" in finding.sentence and "0.693" in finding.evidence[1]


def test_probabilities_in_nll_loss_get_their_own_sentence():
    (finding,) = examine(make_case(Sheet().windows(3).add(TwiceNote, loss="nll_loss")))
    assert "logarithms" in finding.sentence and "log_softmax" in finding.fix


def test_losses_that_were_looked_at_and_are_right_pass():
    assert examine(make_case(Sheet().windows(3))) == ()


def test_losses_that_could_not_be_looked_at_are_not_judged():
    with pytest.raises(Abstain):
        examine(make_case(Sheet().windows(3, factor=None)))
