"""Tests of the checks of how a GradScaler is used."""

from dataclasses import replace

import pytest
from case_factory import Sheet, make_case, make_failure

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks import clip_before_unscale, scaler_bypassed, scaler_never_updated, scaler_with_bf16
from scalewise.records.notes import AutocastNote, StepNote
from scalewise.records.spec import Change

SCALE = 65536.0


def scaled(
    sheet, *, unscale=False, clip=None, step=True, direct=False, update=True, autocast="float16", ratio=1 / SCALE
):
    """One window as a script with a scaler has it."""
    sheet.forward(autocast=autocast).scaler("scale").backward(factor=SCALE)
    if unscale:
        sheet.scaler("unscale_")
    if clip is not None:
        sheet.clip(**clip)
    if step:
        sheet.step(scaled=not direct, ratio=1.0 if direct else ratio)
    if step and not direct:
        sheet.scaler("step")
    return sheet.scaler("update") if update else sheet


def loop(count=4, **values):
    sheet = Sheet()
    for _ in range(count):
        scaled(sheet, **values)
    return sheet


def clipped(**values):
    return clip_before_unscale.examine(make_case(loop(clip=values.pop("clip", {"ratio": 1.0}), **values), ranks=2))


def test_a_loop_with_everything_in_its_place_passes_all():
    case = make_case(loop(unscale=True, clip={"ratio": 1 / SCALE}), ranks=2)
    for check in (clip_before_unscale, scaler_bypassed, scaler_never_updated, scaler_with_bf16):
        assert not check.examine(case)


def test_clipping_of_scaled_gradients_is_found():
    (finding,) = clipped()
    assert finding.counts and "the threshold 1 acts as 1.5e-05" in finding.sentence
    assert (finding.price.value, finding.price.unit) == (SCALE, "times")
    assert finding.fix.startswith("scaler.unscale_(optimizer)\nclip_grad_norm_")


def test_clipping_by_order_of_calls_alone_is_a_suspicion():
    (finding,) = clipped(clip={"ratio": None})
    assert finding.proof == "suspected"


def as_on_a_gpu(sheet, read_windows):
    """The same notes as they are made on a GPU, where scale, factor and ratio are read in the first windows only."""
    steps = 0
    for index, note in enumerate(sheet.notes):
        if steps >= read_windows:
            hidden = {"scale": None, "factor": None, "ratio": None, "left": None, "norm": None}
            known = {name: None for name in hidden if hasattr(note, name)}
            sheet.notes[index] = replace(note, **known)
        steps += isinstance(note, StepNote)
    return sheet


def test_clipping_of_scaled_gradients_is_found_when_the_scale_was_read_in_the_first_windows_only():
    sheet = as_on_a_gpu(loop(100, clip={"ratio": 1.0}), read_windows=12)
    (finding,) = clip_before_unscale.examine(make_case(sheet, ranks=1))
    assert finding.proof == "observed" and "100 of 100 clippings" in finding.evidence[0]


def test_a_long_loop_with_everything_in_its_place_passes_when_the_scale_was_read_in_the_first_windows_only():
    sheet = as_on_a_gpu(loop(100, unscale=True, clip={"ratio": 1 / SCALE}), read_windows=12)
    assert not clip_before_unscale.examine(make_case(sheet, ranks=1))


def test_steps_past_the_scaler_are_counted_after_the_scale_is_no_longer_read():
    sheet = as_on_a_gpu(loop(100, direct=True), read_windows=12)
    (finding,) = scaler_bypassed.examine(make_case(sheet, ranks=1))
    assert "in 100 of 100 steps" in finding.sentence


def test_a_scale_that_was_never_read_and_clipping_that_was_never_seen_are_no_pass():
    with pytest.raises(Abstain, match="scale was never read"):
        clip_before_unscale.examine(make_case(as_on_a_gpu(loop(clip={"ratio": 1.0}), read_windows=0), ranks=1))
    with pytest.raises(Abstain, match="by hand"):
        clip_before_unscale.examine(make_case(loop(), ranks=1))


@pytest.mark.parametrize("clip", [{"ratio": 1 / SCALE}, {"limit": float("inf")}, {"limit": SCALE, "ratio": 1.0}])
def test_gradients_divided_by_hand_infinite_limits_and_scaled_limits_pass(clip):
    assert not clipped(clip=clip)


def test_clipping_of_gradients_whose_loss_was_not_scaled_passes():
    sheet = Sheet()
    for _ in range(3):
        scaled(sheet)
        sheet.forward().backward(factor=1.0).clip(ratio=1.0).step(optimizer=1)
    assert not clip_before_unscale.examine(make_case(sheet, ranks=2))


def test_an_optimizer_that_steps_on_scaled_gradients_is_found():
    (finding,) = scaler_bypassed.examine(make_case(loop(direct=True), ranks=2))
    assert finding.counts and "65536 times too large" in finding.sentence
    assert finding.fix == "scaler.step(optimizer)\nscaler.update()"


def test_an_update_without_a_step_ends_the_script_and_is_explained():
    stopped = loop(1, direct=True).row(make_failure(message="No inf checks were recorded prior to update."))
    (finding,) = scaler_bypassed.examine(make_case(stopped, ranks=2))
    assert "ended the script" in finding.evidence[-1] and finding.counts
    assert not scaler_bypassed.examine(make_case(loop(1, direct=True), ranks=2))


def test_a_step_past_the_scaler_is_found_behind_a_clip_too():
    (finding,) = scaler_bypassed.examine(make_case(loop(direct=True, clip={"ratio": 1.0}), ranks=2))
    assert f"were {SCALE:g} times too large when they were clipped" in finding.sentence
    assert finding.price is None, "the clip leaves of the scale what its threshold allows"


def test_gradients_unscaled_first_may_be_applied_directly():
    assert not scaler_bypassed.examine(make_case(loop(direct=True, unscale=True), ranks=2))
    by_hand = Sheet()
    for _ in range(3):
        by_hand.forward().scaler("scale").backward(factor=SCALE).step(ratio=1 / SCALE)
    assert not scaler_bypassed.examine(make_case(by_hand, ranks=2))


def test_an_optimizer_with_a_loss_of_its_own_needs_no_scaler():
    sheet = Sheet()
    for _ in range(3):
        scaled(sheet)
        sheet.forward().backward(factor=1.0).step(optimizer=1)
    assert not scaler_bypassed.examine(make_case(sheet, ranks=2))


def test_a_scaler_that_is_never_updated_is_found():
    (finding,) = scaler_never_updated.examine(make_case(loop(update=False), ranks=2))
    assert "stepped 4 times and was updated 0" in finding.sentence and finding.fix.endswith("every iteration")


@pytest.mark.parametrize(
    "message", ["step() has already been called since the last update().", "unscale_() is being called after step()."]
)
def test_the_scalers_own_exception_is_explained(message):
    sheet = scaled(Sheet(), update=False).forward().scaler("scale").backward(factor=SCALE)
    sheet.row(make_failure(message=message, place=0))
    (finding,) = scaler_never_updated.examine(make_case(sheet, ranks=2))
    assert "its exception ended the script" in finding.sentence and finding.counts


def test_unscaling_twice_in_one_iteration_is_another_mistake():
    sheet = loop(2).forward().scaler("scale").backward(factor=SCALE).scaler("unscale_")
    sheet.row(make_failure(message="unscale_() has already been called on this optimizer since the last update()."))
    assert not scaler_never_updated.examine(make_case(sheet, ranks=2))


def test_one_update_for_two_optimizers_is_right():
    sheet = Sheet()
    for _ in range(3):
        sheet.forward().scaler("scale").backward(factor=SCALE)
        sheet.step(scaled=True).scaler("step").step(optimizer=1, scaled=True).scaler("step").scaler("update")
    assert not scaler_never_updated.examine(make_case(sheet, ranks=2))


def test_a_scaler_around_bfloat16_is_found():
    (finding,) = scaler_with_bf16.examine(make_case(loop(autocast="bfloat16"), ranks=2))
    assert finding.severity == "slow" and "4 of 4 steps" in finding.sentence and finding.change == Change("no_scaler")


def test_parameters_in_bfloat16_need_no_scaler_either():
    assert scaler_with_bf16.examine(make_case(loop(autocast=None), ranks=2, model={"dtypes": ("bfloat16",)}))


def test_float32_and_any_float16_keep_their_scaler():
    assert not scaler_with_bf16.examine(make_case(loop(autocast=None), ranks=2))
    mixed = Sheet()
    for _ in range(3):
        mixed.forward(autocast="bfloat16").add(AutocastNote)
        scaled(mixed, autocast=None)
    assert not scaler_with_bf16.examine(make_case(mixed, ranks=2))


@pytest.mark.parametrize("check", [clip_before_unscale, scaler_bypassed, scaler_never_updated, scaler_with_bf16])
def test_without_an_enabled_scaler_there_is_nothing_to_check(check):
    with pytest.raises(Abstain, match="GradScaler"):
        check.examine(make_case(Sheet().windows(3), ranks=2))
