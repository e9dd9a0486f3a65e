"""Tests of the check for forward passes past the DDP wrapper."""

import pytest
from case_factory import Sheet, make_case, make_sums, make_wrapper

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.ddp_bypassed import examine

PAST = {"module": "Net", "wrapper": -1, "bypassed": 0, "line": "loss = criterion(model.module(x), y)"}


def test_a_model_called_past_its_wrapper_is_found():
    (finding,) = examine(make_case(Sheet().windows(4, forward=PAST), ranks=2))
    assert finding.counts and "4 of 4 optimizer steps" in finding.sentence
    assert finding.fix == "loss = criterion(model(x), y)" and finding.where.text == PAST["line"]
    assert (finding.price.value, finding.price.unit) == (4, "steps")


def test_parts_of_the_model_called_by_themselves_are_found_by_their_parameters():
    alone = {"module": "Linear", "wrapper": -1, "bypassed": -1}
    sheets = [Sheet().windows(4, forward=alone).row(make_sums(2, weight=1.0 + rank)) for rank in range(2)]
    (finding,) = examine(make_case(*sheets))
    assert any("after step 2, 1 of 1 parameter tensors differ" in fact for fact in finding.evidence)
    assert not examine(make_case(*(Sheet().windows(4, forward=alone).row(make_sums(2)) for _ in range(2))))


def test_a_model_trained_in_evaluation_mode_is_found_by_its_parameters():
    evaluating = {**PAST, "trains": False}
    sheets = [Sheet().windows(4, forward=evaluating).row(make_sums(2, weight=1.0 + rank)) for rank in range(2)]
    assert examine(make_case(*sheets))
    assert not examine(make_case(Sheet().windows(4, forward=evaluating), ranks=2))


def test_evaluation_through_the_inner_module_is_right():
    sheet = Sheet().windows(2).forward(**{**PAST, "trains": False}).windows(2)
    assert not examine(make_case(sheet, ranks=2))


def test_gradients_averaged_by_hand_are_right():
    sheet = Sheet()
    for _ in range(3):
        sheet.forward(**PAST).backward().collective(size_bytes=4000).step()
    assert not examine(make_case(sheet, ranks=2))


def test_models_averaged_now_and_then_are_right():
    sheet = Sheet().windows(3, forward=PAST).collective(size_bytes=4000).windows(2, forward=PAST)
    assert not examine(make_case(sheet, ranks=2))


def test_a_loss_averaged_for_the_log_excuses_nothing():
    sheet = Sheet()
    for _ in range(3):
        sheet.forward(**PAST).backward().collective(size_bytes=4).step()
    assert examine(make_case(sheet, ranks=2))


def test_a_discriminator_past_its_wrapper_in_the_generators_step_is_right():
    sheet = Sheet()
    for _ in range(3):
        sheet.forward(wrapper=0).backward().step(optimizer=0)
        sheet.forward(**PAST).backward().step(optimizer=1)
    assert not examine(make_case(sheet, ranks=2))


def test_a_window_in_which_the_wrapper_was_called_too_is_right():
    sheet = Sheet()
    for _ in range(3):
        sheet.forward().forward(**PAST).backward().step()
    assert not examine(make_case(sheet, ranks=2))


def test_ranks_that_stay_equal_on_different_data_are_averaged_by_something_unseen():
    sheets = [
        Sheet().windows(4, forward={**PAST, "digest": f"of rank {rank}"}).row(make_sums(1)).row(make_sums(2))
        for rank in range(2)
    ]
    assert not examine(make_case(*sheets))


def test_one_rank_has_nobody_to_average_with():
    with pytest.raises(Abstain):
        examine(make_case(Sheet().windows(3, forward=PAST)))
    with pytest.raises(Abstain):
        examine(make_case(Sheet().windows(3), ranks=2, wrapped=False))


def test_several_wrappers_are_told_apart():
    sheet = Sheet().row(make_wrapper(0)).row(make_wrapper(1)).windows(3, forward={**PAST, "bypassed": 1})
    (finding,) = examine(make_case(sheet, ranks=2))
    assert finding.ranks == (0, 1)
