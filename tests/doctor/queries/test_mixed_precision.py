"""Tests of what a window says of mixed precision."""

import pytest
from case_factory import Sheet, make_case
from hypothesis import given
from hypothesis import strategies as st

from scalewise.doctor.case import Abstain
from scalewise.doctor.queries.mixed_precision import (
    carried_scale,
    forward_precisions,
    require_working_scaler,
    taken_out,
)
from scalewise.records.notes import AutocastNote, WarningNote


def window_of(sheet):
    return make_case(sheet).first.windows[0]


def carried(sheet):
    window = window_of(sheet.step())
    return carried_scale(window, window.step)


def test_the_precision_is_that_around_the_forward_pass():
    assert forward_precisions(window_of(Sheet().window(forward={"autocast": "float16"}))) == {"float16"}
    assert forward_precisions(window_of(Sheet().window())) == {None}


def test_a_model_that_enters_autocast_itself_is_seen():
    assert forward_precisions(window_of(Sheet().add(AutocastNote).window(batch=False))) == {"float16"}


def test_a_part_in_another_precision_is_seen():
    sheet = Sheet().add(AutocastNote).window(batch=False, forward={"autocast": "bfloat16"})
    assert forward_precisions(window_of(sheet)) == {"float16", "bfloat16"}


def test_autocast_around_a_loss_says_nothing_of_the_next_forward_pass():
    sheet = Sheet().forward().add(AutocastNote).backward().window()
    assert forward_precisions(window_of(sheet)) == {None}


def test_autocast_in_evaluation_does_not_count():
    sheet = Sheet().add(AutocastNote).forward(trains=False, autocast="float16").window()
    assert forward_precisions(window_of(sheet)) == {None}


def test_a_scaled_loss_leaves_its_scale_in_the_gradients():
    assert carried(Sheet().scaler("scale").backward(factor=65536.0)) == 65536.0
    assert carried(Sheet().scaler("scale").backward(factor=None)) == 65536.0


def test_unscaling_takes_it_out():
    assert carried(Sheet().scaler("scale").backward(factor=65536.0).scaler("unscale_")) is None


def test_a_backward_pass_of_a_loss_that_was_not_scaled_leaves_none():
    assert carried(Sheet().scaler("scale").backward(factor=65536.0).backward(factor=1.0)) is None
    assert carried(Sheet().scaler("scale").backward(factor=None).backward(factor=None)) is None


def test_losses_that_were_scaled_together_carry_it_alike():
    assert carried(Sheet().scaler("scale").backward(factor=65536.0).backward(factor=65536.0)) == 65536.0


def test_a_loss_divided_by_its_micro_batches_still_carries_it():
    assert carried(Sheet().scaler("scale").backward(factor=65536.0 / 16)) == 65536.0


def test_a_scale_of_one_is_none():
    assert carried(Sheet().scaler("scale", scale=1.0).backward()) is None


@given(st.sampled_from([2.0**power for power in range(3, 25)]), st.floats(0.8, 1.2))
def test_a_gradient_is_unscaled_or_not_whatever_the_scale(scale, nearly_one):
    assert taken_out(nearly_one / scale, scale)
    assert not taken_out(nearly_one, scale)


def test_a_scaler_that_switched_itself_off_says_nothing_about_the_script():
    text = "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling."
    require_working_scaler(make_case(Sheet().windows(2)))
    with pytest.raises(Abstain, match="switched itself off"):
        require_working_scaler(make_case(Sheet().add(WarningNote, text=text).windows(2)))
