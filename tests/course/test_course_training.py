"""Tests of what the course's scripts compute: the same training, however it is shared out."""

import math
import re
from statistics import median

import pytest
from course_runner import ALONE

CODE1, CODE2, CODE3 = "practical7_accumulation", "practical7_amp", "practical5_single"
DDP_SCRIPTS = ("practical6_ddp", CODE1, CODE2, CODE3)


def reductions(made):
    """All-reduces of each step, rank 0."""
    return [step.collectives["all_reduce"][0] for step in made.run.ranks[0].steps]


@pytest.mark.parametrize("script", DDP_SCRIPTS)
def test_a_script_trains_on_two_ranks_and_on_one(course, script):
    for ranks in (1, 2):
        made = course.run(script, ranks=ranks)
        assert made.outcome.measured, made.stderr
        assert len(made.losses) == 8
        assert made.losses[-1] < made.losses[0]


@pytest.mark.parametrize("script", ALONE)
def test_a_script_of_one_process_trains_on_the_cpu_and_says_so(course, script):
    made = course.run(script, DEPTH=4)
    assert made.outcome.measured, made.stderr
    assert made.losses[-1] < made.losses[0]
    first = made.stdout.splitlines()[0]
    assert first.startswith(("no GPU can be seen", "fewer than two GPUs: all layers lie on cpu"))


@pytest.mark.parametrize("script", ALONE)
def test_a_script_of_one_process_trains_on_stand_in_devices(course, script):
    made = course.run(script, DEPTH=4, devices=2)
    assert made.outcome.measured, made.stderr
    assert made.losses[-1] < made.losses[0]
    assert [line.partition(":")[0] for line in made.stdout.splitlines()[-2:]] == ["cuda", "cuda"]


@pytest.mark.parametrize("script", ALONE)
def test_device_cpu_leaves_the_gpus_alone(course, script):
    made = course.run(script, DEPTH=4, devices=2, DEVICE="cpu")
    assert made.outcome.measured and "cuda" not in made.stdout
    assert made.losses == course.run(script, DEPTH=4).losses


def test_code_3_without_mixed_precision_is_code_1_bit_for_bit(course):
    assert course.run(CODE3, AMP=0).losses == course.run(CODE1).losses


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_code_3_stays_within_the_precision_of_code_1(course, precision):
    # Eight and eleven bits of mantissa; the difference adds up over the steps.
    tolerance = {"bfloat16": 2**-8, "float16": 2**-11}[precision] * 8
    pairs = zip(course.run(CODE3, PRECISION=precision).losses, course.run(CODE1).losses, strict=True)
    assert all(abs(ours - theirs) <= tolerance * theirs for ours, theirs in pairs)
    assert course.run(CODE3, PRECISION=precision).losses != course.run(CODE1).losses


def test_code_2_in_float32_is_the_ddp_script_bit_for_bit(course):
    assert course.run(CODE2, PRECISION="float32").losses == course.run("practical6_ddp").losses


def test_micro_batches_train_as_the_whole_batch_does(course):
    pairs = zip(course.run(CODE1).losses, course.run("practical6_ddp").losses, strict=True)
    assert all(abs(ours - theirs) <= 1e-5 * theirs for ours, theirs in pairs)


def test_ranks_talk_once_per_optimizer_step_whatever_the_number_of_micro_batches(course):
    plain = reductions(course.run("practical6_ddp"))
    # DDP builds its buckets anew after the first step, so that one may count differently.
    (buckets,) = set(plain[1:])
    for accum_steps in (4, 8):
        assert set(reductions(course.run(CODE1, ACCUM_STEPS=accum_steps))[1:]) == {buckets}
    assert set(reductions(course.run(CODE3))[1:]) == {buckets}
    assert set(reductions(course.run(CODE1, NO_SYNC=0))[1:]) == {4 * buckets}


def test_without_the_division_gradients_are_too_large_by_the_number_of_micro_batches(course):
    # Four times the gradient is four times the learning rate: the losses, divided by hand, are those of that rate.
    undivided = [loss / 4 for loss in course.run(CODE1, DIVIDE_LOSS=0).losses]
    assert undivided == pytest.approx(course.run(CODE1, LR=4).losses, rel=1e-5)
    assert undivided[1] != pytest.approx(course.run(CODE1).losses[1], rel=1e-4)


def test_small_gradients_are_lost_in_float16_without_the_scaler_and_kept_with_it(course):
    light = {"LOSS_WEIGHT": "1e-6", "LR": "1e6"}
    right = course.run(CODE2, PRECISION="float32", **light).losses
    kept = course.run(CODE2, **light).losses
    lost = course.run(CODE2, SCALER=0, **light).losses
    assert kept == pytest.approx(right, rel=0.01)
    assert len(set(lost)) == 1


def test_the_batch_of_an_optimizer_step_stays_or_grows_with_the_micro_batches(course):
    for script in (CODE1, CODE3):
        whole = course.run(script, ACCUM_STEPS=8).run.ranks[1].steps
        grown = course.run(script, ACCUM_STEPS=8, GROW_BATCH=1).run.ranks[1].steps
        assert {(step.samples, step.micro_batches) for step in whole} == {(32, 8)}
        assert {(step.samples, step.micro_batches) for step in grown} == {(8 * 32, 8)}
    grown, at_once = course.run(CODE1, GROW_BATCH=1), course.run("practical6_ddp", BATCH=4 * 64)
    assert grown.losses == pytest.approx(at_once.losses, rel=1e-5)


def test_data_parallel_on_stand_in_devices_trains_as_one_device_does(course):
    none, one, two, four = (course.run("practical5_dp", devices=devices).losses for devices in (0, 1, 2, 4))
    assert one == none
    assert two == pytest.approx(one, rel=1e-6)
    assert four == pytest.approx(one, rel=1e-6)
    assert one == pytest.approx(course.run("practical6_ddp", ranks=1).losses, rel=1e-6)


def test_layers_over_devices_train_bit_for_bit_as_on_the_cpu(course):
    none = course.run("homework3_model_parallel", DEPTH=5)
    for devices in (1, 2, 5):
        assert course.run("homework3_model_parallel", DEPTH=5, devices=devices).losses == none.losses
    assert course.run("practical8_model_parallel", DEPTH=5, devices=2).losses == none.losses


def test_practical_8_takes_two_of_three_devices(course):
    lines = course.run("practical8_model_parallel", DEPTH=5, devices=3).stdout.splitlines()
    assert "layer devices: cuda:0 cuda:0 cuda:1 cuda:1 cuda:1" in lines


def test_the_same_seed_gives_the_same_losses_and_none_gives_others(course):
    fixed = course.run("practical6_ddp")
    again = course.run("practical6_ddp", WARMUP=4)
    free = [course.run("practical6_ddp", SEED="none", WARMUP=warmup).losses for warmup in (4, 5)]
    assert again.losses == fixed.losses
    assert free[0] != free[1] and free[0] != fixed.losses


def test_steps_are_printed_by_rank_0_with_the_warm_up_marked_and_a_median_last(course):
    made = course.run("practical6_ddp")
    *steps, last = made.stdout.splitlines()
    assert [line.endswith("(warm-up)") for line in steps] == [True] * 5 + [False] * 3
    shape = re.compile(r"step +(\d+) +\d+\.\d{3} ms  loss on rank 0 \d\.\d+(  \(warm-up\))?")
    assert [shape.fullmatch(line)[1] for line in steps] == [str(number) for number in range(8)]
    assert re.fullmatch(r"2 ranks on cpu, batch 64: median \d+\.\d{3} ms of 3 steps", last)
    assert not made.run.folder.joinpath("rank1.stdout.log").read_text()


def test_a_delay_on_every_rank_and_one_on_rank_0_alone_are_waited_for(course):
    slow, waiting = course.run("practical6_ddp", IMBALANCE=0.05, STEPS=6).run.ranks
    assert all(step.step_ns >= 50e6 for step in slow.steps)
    assert median(step.step_ns for step in waiting.steps) >= 25e6, "a rank that comes late to its step waits for less"
    every = course.run("practical6_ddp", DELAY=0.05, STEPS=6).run.ranks
    assert all(step.step_ns >= 50e6 for rank in every for step in rank.steps)


def test_a_rank_sees_its_part_of_the_global_batch(course):
    assert {step.samples for step in course.run("practical6_ddp").run.ranks[1].steps} == {32}
    assert {step.micro_batches for step in course.run(CODE1, ACCUM_STEPS=8).run.ranks[1].steps} == {8}
    assert all(math.isfinite(loss) for loss in course.run(CODE1, ACCUM_STEPS=8).losses)
