"""Tests of the check for ranks that share one GPU."""

import pytest
from case_factory import Sheet, make_device_use, make_wrapper
from data_sheets import two

from scalewise.doctor.case import Abstain
from scalewise.doctor.checks.one_device_for_all import examine


def asks(*devices):
    return Sheet().windows(3).row(make_device_use(*devices))


def holds(gpu):
    sheet = Sheet()
    place = sheet.place("model = DDP(model.to(device))")
    return sheet.windows(3).row(make_wrapper(place=place, device="cuda:0", gpu=gpu))


def test_ranks_that_ask_for_no_number_use_the_first():
    (finding,) = examine(two(asks("nccl", "cuda"), asks("nccl", "cuda"), on_cpu=True))
    assert finding.severity == "wrong" and finding.ranks == (0, 1)
    assert "cuda:0" in finding.sentence and "LOCAL_RANK" in finding.fix


def test_a_number_of_their_own_is_right():
    assert examine(two(asks("cuda:0", "cuda"), asks("cuda:1", "cuda"), on_cpu=True)) == ()


def test_a_rank_that_also_asks_for_the_first_is_not_judged():
    assert examine(two(asks("cuda:0"), asks("cuda:1", "cuda:0"), on_cpu=True)) == ()


def test_ranks_that_see_one_gpu_each_may_call_it_zero():
    one, other = (asks("cuda:0", f"CUDA_VISIBLE_DEVICES={number}") for number in range(2))
    assert examine(two(one, other, on_cpu=True)) == ()


def test_a_script_for_cpus_is_not_judged():
    with pytest.raises(Abstain, match="no rank asked"):
        examine(two(asks(), asks(), on_cpu=True))
    with pytest.raises(Abstain, match="no rank asked"):
        examine(two(Sheet().windows(3), Sheet().windows(3)))


def test_on_gpus_the_identity_counts_and_not_the_number():
    (finding,) = examine(two(holds("uuid a"), holds("uuid a"), machine={"gpus": 2}))
    assert "uuid a" in finding.evidence[0] and finding.where.text == "model = DDP(model.to(device))"
    assert examine(two(holds("uuid a"), holds("uuid b"), machine={"gpus": 2})) == ()


def test_a_machine_with_one_gpu_leaves_no_choice():
    with pytest.raises(Abstain, match="1 GPU for 2 ranks"):
        examine(two(holds("uuid a"), holds("uuid a"), machine={"gpus": 1}))
