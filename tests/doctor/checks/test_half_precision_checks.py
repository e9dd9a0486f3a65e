"""Tests of the checks of float16 without scaling and of backward passes under autocast."""

import pytest
from case_factory import Sheet, make_case

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks import backward_under_autocast, fp16_without_scaler
from scalewise.doctor.finding import GradientPair, Replayed
from scalewise.records.notes import AutocastNote, WarningNote
from scalewise.records.spec import Change

HALF = {"autocast": "float16"}


def half(**values):
    return fp16_without_scaler.examine(make_case(Sheet().windows(4, forward=HALF, **values), ranks=2))


def test_half_precision_without_scaling_is_suspected():
    (finding,) = half()
    assert finding.proof == "suspected" and not finding.counts and finding.change == Change("scaler")
    assert "4 of 4 optimizer steps" in finding.sentence


def test_a_gradient_that_vanished_is_proof():
    (finding,) = half(gained=0.0)
    assert finding.proof == "observed" and finding.counts


def test_a_model_that_enters_half_precision_itself_is_seen():
    sheet = Sheet()
    for _ in range(3):
        sheet.add(AutocastNote).forward().backward().step()
    assert fp16_without_scaler.examine(make_case(sheet, ranks=2))


def test_parameters_in_half_precision_are_seen():
    assert fp16_without_scaler.examine(make_case(Sheet().windows(3), ranks=2, model={"dtypes": ("float16",)}))


@pytest.mark.parametrize("values", [{"factor": 1024.0}, {"factor": [1024.0]}])
def test_a_loss_that_is_scaled_by_hand_passes(values):
    assert not half(**values)


def test_bfloat16_a_scaler_and_evaluation_pass():
    assert not fp16_without_scaler.examine(make_case(Sheet().windows(3, forward={"autocast": "bfloat16"})))
    scaled = Sheet()
    for _ in range(3):
        scaled.forward(**HALF).scaler("scale").backward(factor=65536.0).step(scaled=True)
    assert not fp16_without_scaler.examine(make_case(scaled))
    evaluated = Sheet().windows(2).add(AutocastNote).forward(trains=False, **HALF).windows(2)
    assert not fp16_without_scaler.examine(make_case(evaluated))


def test_a_scaler_that_switched_itself_off_is_not_held_against_the_script():
    text = "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling."
    with pytest.raises(Abstain):
        fp16_without_scaler.examine(make_case(Sheet().add(WarningNote, text=text).windows(3, forward=HALF)))


@pytest.mark.parametrize(("zeros", "proof"), [(0.3, "replayed"), (0.0001, "suspected")])
def test_zeros_that_a_scaler_brings_back_are_proof(zeros, proof):
    case = make_case(Sheet().windows(3, forward=HALF), ranks=2)
    (finding,) = fp16_without_scaler.examine(case)
    pair = GradientPair(1, 1.0, 1.0, 1.0, 1.0, plain_zeros=zeros, fixed_zeros=0.0)
    settled = fp16_without_scaler.settle(case, finding, Replayed(finding.change, case, case, 3, None, gradients=pair))
    assert settled.proof == proof and f"{zeros:.2%} as it is" in settled.evidence[-1]
    assert (settled.price is not None) == (proof == "replayed")


def test_a_replay_without_gradients_settles_nothing():
    case = make_case(Sheet().windows(3, forward=HALF), ranks=2)
    (finding,) = fp16_without_scaler.examine(case)
    assert fp16_without_scaler.settle(case, finding, Replayed(finding.change, case, case, 3, None)) == finding


def test_backward_passes_under_autocast_are_noted():
    (finding,) = backward_under_autocast.examine(make_case(Sheet().windows(3, autocast="bfloat16"), ranks=2))
    assert finding.severity == "note" and not finding.counts and "3 of 3 backward passes" in finding.sentence


def test_few_of_them_or_none_pass():
    assert not backward_under_autocast.examine(make_case(Sheet().windows(3)))
    assert not backward_under_autocast.examine(make_case(Sheet().windows(3).window(autocast="float16")))
