"""Tests of the checks of where windows end and gradients are zeroed."""

import pytest
from case_factory import Sheet, make_case

from factories import make_outcome
from scalewise.doctor.case import Abstain
from scalewise.doctor.checks import (
    never_zeroed,
    window_dropped,
    window_leaks,
    zeroed_before_step,
    zeroed_every_micro_batch,
)


def epochs(count, left, *, zero_first=False, flush=False, through=False):
    """Epochs of two windows of four and some micro-batches more."""
    sheet, total = Sheet(), 0
    for _ in range(count):
        sheet.epoch()
        if zero_first:
            sheet.zero()
        for index in range(8 + left):
            sheet.micro_batch(factor=0.25)
            total += 1
            if (total if through else index + 1) % 4 == 0:
                sheet.step().zero()
        sheet.exhausted()
        if flush and left:
            sheet.step().zero()
    return sheet


def ends(sheet, **run):
    case = make_case(sheet, ranks=2, **run)
    return window_dropped.examine(case), window_leaks.examine(case)


def test_a_window_thrown_away_at_the_end_of_an_epoch():
    (finding,), leaks = ends(epochs(3, 2, zero_first=True))
    assert leaks == () and "2 micro-batches are never applied" in finding.sentence
    assert "zero_grad() follows" in finding.sentence
    assert finding.price.value == pytest.approx(6 / 30) and finding.where.text == "optimizer.zero_grad()"
    assert "or i + 1 == len(loader)" in finding.fix


def test_the_only_epoch_ends_with_gradients_that_nobody_applied():
    (finding,), leaks = ends(epochs(1, 3))
    assert leaks == () and "the script ends with them" in finding.sentence


def test_a_run_that_was_ended_early_says_nothing_of_its_end():
    assert ends(epochs(1, 3), outcome=make_outcome("enough")) == ((), ())


def test_a_window_that_goes_on_in_the_next_epoch():
    dropped, (finding,) = ends(epochs(3, 2))
    assert dropped == () and "sums 6 micro-batches, not 4" in finding.sentence
    assert finding.price.value == pytest.approx(1.5) and finding.where.text == "optimizer.step()"
    assert any("2 micro-batches are after the last step" in line for line in finding.evidence)


@pytest.mark.parametrize(
    "sheet",
    [epochs(3, 0), epochs(3, 2, flush=True), epochs(3, 2, through=True), epochs(1, 2, flush=True)],
    ids=["whole windows", "applied at the end", "counted through epochs", "one epoch, applied"],
)
def test_epochs_that_lose_nothing_are_right(sheet):
    assert ends(sheet) == ((), ())


def test_an_evaluation_in_between_is_no_end_of_training():
    sheet = Sheet()
    for _ in range(4):
        sheet.micro_batch().micro_batch().batch(loader=1).forward(trains=False).exhausted(loader=1)
        sheet.micro_batch().micro_batch().step().zero()
    assert ends(sheet.exhausted()) == ((), ())


@pytest.mark.parametrize("check", [window_dropped, window_leaks])
def test_without_a_loader_or_its_end_nothing_is_said(check):
    for sheet in (Sheet().windows(4, 4, batch=False), Sheet().windows(4, 4)):
        with pytest.raises(Abstain):
            check.examine(make_case(sheet, ranks=2))
    assert check.examine(make_case(Sheet().windows(4))) == ()


def test_zeroed_in_front_of_every_micro_batch():
    (finding,) = zeroed_every_micro_batch.examine(make_case(Sheet().windows(4, 4, zero="each", factor=0.25)))
    assert finding.proof == "observed" and finding.price.value == pytest.approx(0.75)
    assert "3 of 4 are thrown away" in finding.sentence and finding.where.text == "optimizer.zero_grad()"


def test_zeroed_in_front_of_every_micro_batch_with_a_scaler():
    step = {"ratio": 1 / 65536, "scaled": True}
    sheet = Sheet()
    for _ in range(4):
        for _ in range(2):
            sheet.batch().zero().forward().scaler("scale").backward(factor=65536.0)
        sheet.step(**step)
    (finding,) = zeroed_every_micro_batch.examine(make_case(sheet))
    assert finding.proof == "observed"


def test_zeroed_and_not_looked_at_is_a_suspicion():
    case = make_case(Sheet().windows(4, 4, zero="each", step={"ratio": None}))
    assert [finding.proof for finding in zeroed_every_micro_batch.examine(case)] == ["suspected"]


def test_gradients_kept_elsewhere_and_put_back_are_right():
    case = make_case(Sheet().windows(4, 4, zero="each", step={"ratio": 0.61}))
    assert zeroed_every_micro_batch.examine(case) == ()


@pytest.mark.parametrize("zero", ["after", "before", "never"])
def test_zeroed_once_per_window_is_right(zero):
    assert zeroed_every_micro_batch.examine(make_case(Sheet().windows(4, 4, zero=zero))) == ()


def zeroed_first(**step):
    sheet = Sheet()
    for _ in range(4):
        sheet.micro_batch().zero().step(**step)
    return make_case(sheet)


@pytest.mark.parametrize("step", [{"gradients": 0, "ratio": None}, {"gradients": 4, "ratio": 0.0}])
def test_zeroed_between_backward_and_step(step):
    (finding,) = zeroed_before_step.examine(zeroed_first(**step))
    assert "4 of 4 optimizer steps have no gradients" in finding.sentence
    assert finding.fix.splitlines() == [
        "loss.backward()",
        "optimizer.step()",
        "optimizer.zero_grad()  # after the step",
    ]


def test_steps_that_were_not_looked_at_are_not_counted():
    sheet = Sheet()
    for index in range(9):
        sheet.micro_batch().zero().step(ratio=0.0 if index < 4 else None)
    (finding,) = zeroed_before_step.examine(make_case(sheet))
    assert "4 of 4" in finding.sentence


def set_to_none(*others, gained=0.3):
    sheet = Sheet()
    for _ in range(4):
        sheet.micro_batch(gained=gained).step(gradients=0, ratio=None)
        for number in others:
            sheet.step(optimizer=number, gradients=4)
    return make_case(sheet)


def test_gradients_set_to_none_before_the_step_are_told_at_the_step():
    (finding,) = zeroed_before_step.examine(set_to_none())
    assert finding.sentence == "4 of 4 optimizer steps have no gradients: they are set to None before them."
    assert finding.where is not None and finding.where.text == "optimizer.step()"


@pytest.mark.parametrize("case", [set_to_none(1), set_to_none(gained=None)], ids=["frozen part", "never had any"])
def test_an_optimizer_that_was_given_no_gradients_lost_none(case):
    assert zeroed_before_step.examine(case) == ()


def other_model():
    sheet = Sheet()
    for _ in range(4):
        sheet.micro_batch().zero(optimizer=1).step(gradients=0)
    return make_case(sheet)


@pytest.mark.parametrize(
    "case",
    [zeroed_first(ratio=0.7), other_model(), make_case(Sheet().windows(4)), make_case(Sheet().windows(4, zero="each"))],
    ids=["put back", "of another optimizer", "after the step", "before backward"],
)
def test_a_step_with_gradients_is_right(case):
    assert zeroed_before_step.examine(case) == ()


def stale(first=False, rest=True, windows=5, **values):
    sheet = Sheet()
    for index in range(windows):
        sheet.window(2, zero="never", had_gradient=[rest if index else first, True], **values)
    return make_case(sheet)


def test_gradients_that_are_never_zeroed():
    (finding,) = never_zeroed.examine(stale())
    assert "4 of 4 steps add to those of all steps before" in finding.sentence
    assert finding.fix == "optimizer.step()\noptimizer.zero_grad()" and finding.where.text == "optimizer.step()"


def test_gradients_zeroed_by_hand_are_right():
    assert never_zeroed.examine(stale(rest=False)) == ()


def test_gradients_zeroed_in_the_middle_of_a_window_are_right():
    sheet = Sheet()
    for _ in range(5):
        sheet.forward().backward(had_gradient=True).zero().forward().backward(had_gradient=False).step()
    assert never_zeroed.examine(make_case(sheet)) == ()


def test_whether_they_were_zeroed_may_not_be_known():
    for case in (stale(rest=None), stale(closure=True), make_case(gan())):
        with pytest.raises(Abstain):
            never_zeroed.examine(case)


def gan():
    sheet = Sheet()
    for _ in range(4):
        sheet.forward().backward(had_gradient=True).step(optimizer=0).forward().backward().step(optimizer=1)
    return sheet


@pytest.mark.parametrize("check", [zeroed_before_step, zeroed_every_micro_batch])
def test_too_few_steps_or_a_closure_abstain(check):
    for sheet in (Sheet().window(2), Sheet().windows(4, closure=True)):
        with pytest.raises(Abstain):
            check.examine(make_case(sheet))
