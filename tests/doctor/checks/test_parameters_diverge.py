"""Tests of the check for parameters that differ between ranks."""

import pytest
from case_factory import Sheet, make_case, make_sums, make_wrapper

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.parameters_diverge import examine


def sheets(*weights, **window):
    """Two ranks; rank 1 has these weights after steps 1, 2, 4, ..., rank 0 has 1.0."""
    made = [Sheet().windows(8, **window), Sheet().windows(8, **window)]
    for power, weight in enumerate(weights):
        made[0].row(make_sums(2**power))
        made[1].row(make_sums(2**power, weight=weight))
    return made


def test_the_first_step_apart_and_the_tensor_are_named():
    (finding,) = examine(make_case(*sheets(1.0, 1.5, 2.0)))
    assert "from step 2 on" in finding.sentence and "weight by 0.33 of its norm" in finding.sentence
    assert finding.counts and finding.ranks == (0, 1) and finding.price.value == pytest.approx(0.5)


def test_equal_parameters_pass():
    assert not examine(make_case(*sheets(1.0, 1.0, 1.0)))
    assert not examine(make_case(*sheets(1.0, 1.0 + 1e-7)))


def test_ranks_that_agree_again_were_apart_on_purpose():
    assert not examine(make_case(*sheets(1.5, 1.5, 1.0)))


def test_the_likely_cause_is_named():
    past = {"wrapper": -1, "bypassed": 0}
    (bypassed,) = examine(make_case(*sheets(2.0, forward=past)))
    assert any("bypassed in 8 of 8 steps" in fact for fact in bypassed.evidence)
    (unsynchronised,) = examine(make_case(*sheets(2.0, sync=False)))
    assert any("no gradient was averaged in 8 of 8" in fact for fact in unsynchronised.evidence)


def test_steps_skipped_on_one_rank_and_other_learning_rates_are_causes():
    first, second = sheets(2.0)
    first.schedule(rate=0.1)
    second.schedule(rate=0.2).window(step={"skipped": True})
    first.window()
    (finding,) = examine(make_case(first, second))
    assert any("rank 0: 0, rank 1: 1" in fact for fact in finding.evidence)
    assert any("learning rates" in fact for fact in finding.evidence)


def test_ranks_that_average_whole_models_between_steps_are_meant_to_differ():
    first, second = sheets(2.0)
    for sheet in (first, second):
        sheet.collective(size_bytes=4000).window()
    with pytest.raises(Abstain, match="averages whole models"):
        examine(make_case(first, second))


def test_gradients_averaged_by_hand_excuse_nothing():
    made = [Sheet().row(make_sums(1, weight=1.0 + rank)) for rank in range(2)]
    for sheet in made:
        for _ in range(3):
            sheet.forward(wrapper=-1, bypassed=0).backward().collective(size_bytes=4000).step()
    assert examine(make_case(*made))


def test_sharded_parameters_and_lonely_ranks_are_not_compared():
    with pytest.raises(Abstain):
        examine(make_case(*sheets()))
    apart = [sheet.row(make_wrapper(wrapper="FSDP")) for sheet in sheets(2.0)]
    with pytest.raises(Abstain):
        examine(make_case(*apart))
