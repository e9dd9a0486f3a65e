"""Tests of the course's four suites: they ask for what the course asks for, on every kind of machine."""

from pathlib import Path

import pytest

from factories import make_machine
from scalewise.course.homework import course_suites
from scalewise.plan.expand import expand, folder_name
from scalewise.plan.experiment import changed
from scalewise.plan.find import find_suite
from scalewise.plan.suite import load_suite

SUITES = course_suites()
CWD = Path("/somewhere")
LINKS = ("link", "link-in-training")  # they train nothing


def planned(name, machine=None, **changes):
    return expand(changed(load_suite(find_suite(name)), **changes), machine or make_machine(cores=2), CWD)


def experiment(name, suite, machine=None, **changes):
    return [spec for spec in planned(suite, machine, **changes).runs if spec.experiment == name]


@pytest.mark.parametrize("name", SUITES)
def test_everything_of_a_suite_can_run_on_two_cores(name):
    beyond = "4 ranks need 4 cores and 2 are here"  # only where sharing a core would say nothing
    no_gpu = "device cuda was asked for and no GPU is visible"  # of experiments for machines with one
    assert {refusal.reason for refusal in planned(name).refusals} <= {beyond, no_gpu}
    assert {refusal.reason for refusal in planned(name, make_machine(cores=4)).refusals} <= {no_gpu}


@pytest.mark.parametrize("name", SUITES)
def test_at_least_30_steps_are_measured_even_if_a_third_of_them_is_warm_up(name):
    timed = [spec for spec in planned(name).runs if not spec.inspected and spec.experiment not in LINKS]
    assert timed and all(int(spec.env["STEPS"]) >= 40 for spec in timed)  # the sheet asks for 30


@pytest.mark.parametrize("name", SUITES)
def test_every_batch_can_be_shared_evenly(name):
    for spec in planned(name).runs:
        if "BATCH" in spec.env:
            ranks = spec.rehearsed.world_size if spec.rehearsed else spec.ranks
            grows = spec.env.get("GROW_BATCH") == "1"  # then BATCH is that of one micro-batch
            pieces = 1 if grows else int(spec.env.get("ACCUM_STEPS", "1"))
            assert int(spec.env["BATCH"]) % (ranks * pieces) == 0


@pytest.mark.parametrize("name", SUITES)
def test_the_same_request_finds_its_folder_again(name):
    suite, machine = load_suite(find_suite(name)), make_machine(cores=2)
    first, second = (folder_name(suite, expand(suite, machine, CWD), machine) for _ in range(2))
    assert first == second


def test_homework_1_asks_for_the_courses_values():
    strong = [spec for spec in experiment("strong-scaling", "homework1") if spec.rehearsed is None]
    assert {spec.ranks for spec in strong} == {1, 2, 4} and {spec.env["BATCH"] for spec in strong} == {"64"}
    assert {spec.axes["batch"] for spec in experiment("batch-scaling", "homework1")} == {32, 64, 128, 256}
    assert {spec.env["DELAY"] for spec in experiment("delay", "homework1")} == {"0", "0.005", "0.01", "0.02", "0.04"}
    assert {spec.env["IMBALANCE"] for spec in experiment("imbalance", "homework1")} == {"0", "0.02"}
    assert {spec.env["SEED"] for spec in experiment("seeds", "homework1")} == {"0", "none"}


def test_the_large_model_is_smaller_on_two_cores_the_same_for_all_ranks_and_says_so():
    large = [spec for spec in experiment("model-size", "homework1") if spec.axes["case"] == "large"]
    assert {(spec.env["DIM"], spec.env["DEPTH"]) for spec in large} == {("1024", "8")}
    assert all(spec.asked == {"DIM": "8192"} and "2 GFLOP per core" in spec.shrink_rule for spec in large)
    small = [spec for spec in experiment("model-size", "homework1") if spec.axes["case"] == "small"]
    assert all(spec.asked == {} and spec.shrink_rule == "" and spec.env["DIM"] == "1024" for spec in small)


def test_full_insists_on_the_courses_own_size():
    runs = experiment("model-size", "homework1", full=True)
    assert {spec.env["DIM"] for spec in runs if spec.axes["case"] == "large"} == {"8192"}
    assert all(spec.asked == {} for spec in runs)


def test_a_gpu_takes_the_large_model_as_it_is():
    runs = experiment("model-size", "homework1", make_machine(cores=2, gpus=4))
    assert {spec.env["DIM"] for spec in runs if spec.axes["case"] == "large"} == {"8192"}


def test_homework_2_runs_the_three_codes_and_four_numbers_of_micro_batches():
    scripts = {Path(spec.script).name for spec in experiment("codes", "homework2")}
    assert scripts == {"practical7_accumulation.py", "practical7_amp.py", "practical5_single.py"}
    found = experiment("accumulation", "homework2")
    assert {spec.axes["accum"] for spec in found} == {4, 8, 16, 32}
    assert {spec.env["ACCUM_STEPS"] for spec in found} == {"4", "8", "16", "32"}


def test_homework_3_is_one_process_and_emulated_where_gpus_are_too_few():
    runs = planned("homework3").runs
    assert {spec.mode for spec in runs} == {"python"}
    assert {spec.axes["depth"] for spec in runs if "depth" in spec.axes} == {6, 12, 24}
    assert {spec.axes["devices"]: spec.emulated for spec in runs if "devices" in spec.axes} == {
        1: False,
        2: True,
        5: True,
    }
    on_two = planned("homework3", make_machine(cores=2, gpus=2)).runs
    assert {spec.axes["devices"]: spec.emulated for spec in on_two if "devices" in spec.axes} == {
        1: False,
        2: False,
        5: True,
    }


@pytest.mark.parametrize("name", SUITES)
def test_inspected_runs_are_one_per_arm_short_and_with_nothing_changed(name):
    inspected = [spec for spec in planned(name).runs if spec.inspected]
    assert inspected
    assert all(spec.name.endswith("-inspect") and spec.repeat == 0 and not spec.changes for spec in inspected)
    assert all(int(spec.env["STEPS"]) <= 8 for spec in inspected)
    arms = [(spec.experiment, tuple(spec.axes.items()), spec.ranks) for spec in inspected]
    assert len(set(arms)) == len(arms)


@pytest.mark.parametrize("name", SUITES)
def test_a_script_is_told_the_device_so_that_it_can_notice_a_gpu_that_has_gone(name):
    for machine, device in ((make_machine(cores=2), "cpu"), (make_machine(cores=2, gpus=4), "cuda")):
        runs = [spec for spec in planned(name, machine).runs if spec.experiment not in LINKS]
        stand_ins = {"cuda"} if name in ("homework1", "homework3") else set()  # several devices in one process
        assert {spec.env["DEVICE"] for spec in runs} - stand_ins <= {device}


def rehearsed(name, machine=None):
    return [
        (spec.rehearsed.world_size, spec.ranks)
        for spec in experiment(name, "homework1", machine)
        if spec.rehearsed is not None
    ]


def test_ranks_that_are_not_here_are_rehearsed_in_company_and_the_most_that_are_here_for_the_check():
    assert rehearsed("strong-scaling") == [(2, 2), (4, 2)]
    assert rehearsed("model-size") == [(2, 2), (4, 2)] * 2
    assert rehearsed("batch-scaling") == [(4, 2)] * 4
    assert rehearsed("strong-scaling", make_machine(cores=4)) == []
    assert rehearsed("strong-scaling", make_machine(cores=2, gpus=1)) == [(1, 1), (2, 1), (4, 1)]
    assert rehearsed("strong-scaling", make_machine(cores=8, gpus=8)) == []


def test_a_rehearsed_model_is_as_large_as_the_measured_one():
    specs = experiment("model-size", "homework1")
    sizes = {(spec.axes["case"], spec.env["DIM"], spec.env["STEPS"]) for spec in specs if spec.rehearsed}
    assert sizes == {(spec.axes["case"], spec.env["DIM"], spec.env["STEPS"]) for spec in specs if spec.timed}
