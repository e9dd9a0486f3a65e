"""Tests of the check for parameters without gradient that ended the script."""

import pytest
from case_factory import Sheet, make_case, make_failure, make_use

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.unused_parameters import MESSAGE, examine

TEXT = f"{MESSAGE} before starting a new one. ... Parameter indices which did not receive grad for rank 0: 2 3 ..."


def test_the_parameters_are_named():
    sheet = Sheet().windows(1)
    sheet.row(make_failure(message=TEXT, without_gradient=("head.weight", "head.bias"), place=0))
    (finding,) = examine(make_case(sheet, ranks=2))
    assert "2 parameters got no gradient (head.bias, head.weight)" in finding.sentence
    assert "net.head.requires_grad_(False)" in finding.fix and finding.counts and finding.ranks == (0, 1)
    assert any("2 3" in fact for fact in finding.evidence) and finding.where is not None


def test_names_come_from_the_steps_looked_at_where_the_failure_has_none():
    sheet = Sheet().windows(1).row(make_failure(message=TEXT)).row(make_use(without_gradient={"spare": 1, "used": 0}))
    (finding,) = examine(make_case(sheet, ranks=2))
    assert "1 parameter got no gradient (spare)" in finding.sentence


def test_without_any_name_the_error_is_still_explained():
    (finding,) = examine(make_case(Sheet().windows(1).row(make_failure(message=TEXT)), ranks=2))
    assert "some parameters" in finding.sentence and all(not fact.endswith("for ") for fact in finding.evidence)


def test_other_failures_and_none_pass():
    assert not examine(make_case(Sheet().windows(2), ranks=2))
    other = make_failure(message="Expected to mark a variable ready only once.")
    assert not examine(make_case(Sheet().windows(1).row(other), ranks=2))
    unused = make_use(without_gradient={"spare": 8})
    assert not examine(make_case(Sheet().windows(8).row(unused), ranks=2))


def test_without_ddp_there_is_nothing_to_check():
    with pytest.raises(Abstain):
        examine(make_case(Sheet().windows(1).row(make_failure(message=TEXT)), wrapped=False))
