"""Tests of the answer that stands on top: is it faster, what holds it back, what to try."""

from dataclasses import replace

import pytest

from factories import make_estimate, make_outcome, make_run, make_suite, noisy, quiet_sample
from scalewise.analysis.estimate import Estimate
from scalewise.analysis.figures import Collective
from scalewise.analysis.headline import Headline, headlines_of
from scalewise.analysis.scaling import BY_REMOVAL, Communication
from scalewise.analysis.summary import ArmRow, summarise
from scalewise.records.machine import GpuSample
from scalewise.records.spec import Change

ALL_REDUCE, ALL_GATHER = Collective("all_reduce", 2.0, 4e6), Collective("all_gather", 2.0, 4e6)


def rows_of(*runs) -> tuple[ArmRow, ...]:
    (experiment,) = summarise(make_suite(*runs)).experiments
    return experiment.rows


def two_scales(second: float, **changes) -> tuple[ArmRow, ArmRow]:
    """One rank with a step of 10 ms, and two ranks whose row is changed by hand."""
    one, two = rows_of(make_run(noisy(60, 0.010, 1), 1), make_run(noisy(60, second, 2), 2))
    return one, replace(two, **changes)


def answer(*rows: ArmRow) -> Headline:
    return headlines_of(rows)[-1]


def exactly(seconds: float) -> Estimate:
    return Estimate(seconds, seconds * 0.999, seconds * 1.001, 60, 1, "made up", 0.95)


def communication(method, seconds):
    return Communication(method, make_estimate(seconds, 0.8 * seconds, 1.2 * seconds))


def phases(**milliseconds: float) -> dict[str, float | None]:
    names = ("data", "forward", "backward", "optimizer", "rest")
    return {name: milliseconds.get(name, 0.0) / 1e3 for name in names}


def settled(row: ArmRow, milliseconds: float, **changes) -> ArmRow:
    """The row with a step and a loop that take so long and vary little."""
    return replace(row, step_seconds=exactly(milliseconds / 1e3), loop_seconds=exactly(milliseconds / 1e3), **changes)


def test_a_faster_arm_is_called_faster_with_its_interval_and_its_share_of_the_ideal():
    one, two = two_scales(0.006)
    text = answer(one, two).verdict

    assert text.startswith("2 ranks are faster than 1 rank: 1.6")
    assert "95 % interval" in text and "% of the ideal 2" in text


def test_a_slower_arm_is_called_slower():
    assert answer(*two_scales(0.02)).verdict.startswith("2 ranks are slower than 1 rank: 0.4")


def test_an_interval_that_holds_one_is_never_called_faster_or_slower():
    text = answer(*two_scales(0.0101)).verdict

    assert text.startswith("It cannot be told whether 2 ranks beat 1 rank")
    assert "faster" not in text and "slower" not in text


def test_weak_scaling_is_said_and_compares_samples_per_second():
    one = make_run(noisy(60, 0.010, 1), 1, samples_in_all=64)
    two = make_run(noisy(60, 0.010, 2), 2, samples_in_all=128)
    text = answer(*rows_of(one, two)).verdict

    assert "times the samples per second" in text and "Weak scaling: each rank keeps its own batch." in text


def test_a_refused_speedup_says_why_and_claims_nothing():
    one, two = two_scales(0.006)
    refused = replace(two.scaling, speedup=None, refusal="the 2 ranks train apart")
    text = answer(one, replace(two, scaling=refused)).verdict

    assert text.endswith("no speedup is given: the 2 ranks train apart.")
    assert "faster" not in text


def test_a_failed_arm_gives_its_reason():
    failed = make_run([0.01] * 3, 2, outcome=make_outcome("raised", "rank 1 of 2 raised ValueError: no"))
    found = answer(*rows_of(make_run(noisy(60, 0.010, 1), 1), failed))

    assert found.verdict == "2 ranks: no measurement, rank 1 of 2 raised ValueError: no."
    assert found.held_back is None


def test_arms_with_a_change_have_no_headline_of_their_own():
    changed = make_run(noisy(60, 0.006, 2), 2, changes=(Change("remove_communication"),), name="changed")
    found = headlines_of(rows_of(make_run(noisy(60, 0.010, 1), 1), make_run(noisy(60, 0.006, 2), 2), changed))

    assert [one.arm for one in found] == ["1 rank", "2 ranks"]


# What the row of one rank (10 ms: forward 4, backward 5, optimizer 1) loses on two, and what that is called.
LOSSES = {
    "communication": (
        {
            "communication": (communication("inside", 0.004),),
            "collectives": (ALL_REDUCE,),
        },
        phases(forward=2, backward=6.5, optimizer=0.5),
    ),
    "data": ({}, phases(data=4, forward=2, backward=2.5, optimizer=0.5)),
    "host": ({"between_seconds": 0.004}, phases(forward=2, backward=2.5, optimizer=0.5)),
    "optimizer": ({}, phases(forward=2, backward=2.5, optimizer=4.5)),
    "batch too small": ({}, phases(forward=4, backward=4.5, optimizer=0.5)),
    "straggler": (
        {"skew_seconds": 0.004, "slowest_rank": 1, "slowest_share": 0.95},
        phases(forward=2, backward=2.5, optimizer=0.5),
    ),
    "launch": ({"gpu_busy_share": 0.3, "device": "cuda"}, phases(forward=2, backward=2.5, optimizer=0.5)),
    "not told apart": ({"collectives": (ALL_GATHER,)}, phases(forward=4, backward=4.5, optimizer=0.5)),
}


@pytest.mark.parametrize("cause", LOSSES)
def test_the_largest_loss_is_named_with_what_to_try(cause):
    one, two = two_scales(0.009)
    changes, spent = LOSSES[cause]
    one = settled(one, 10, phase_seconds=phases(forward=4, backward=5, optimizer=1), between_seconds=0.0)
    two = settled(two, 9, **{"phase_seconds": spent, "between_seconds": 0.0, "skew_seconds": 0.0, **changes})
    found = answer(one, two)

    assert found.held_back is not None and found.held_back.cause == cause
    assert found.held_back.advice in found.text() and "Try: " in found.text()


def test_steps_that_are_faster_while_the_loop_waits_for_data_are_not_called_a_faster_run():
    one, two = two_scales(0.005)
    one = settled(one, 10, phase_seconds=phases(forward=4, backward=5, optimizer=1), between_seconds=0.0)
    waits = phases(data=5, forward=2, backward=2.5, optimizer=0.5)
    two = settled(two, 5, phase_seconds=waits, between_seconds=0.0, skew_seconds=0.0)
    text = answer(one, replace(two, loop_seconds=exactly(0.010))).verdict

    assert text.startswith("The steps of 2 ranks are faster than those of 1 rank")
    assert "With waiting for data and what lies between steps it is 1.00 times." in text


def test_a_rank_that_waits_for_the_others_is_not_blamed_for_its_long_step():
    one, two = two_scales(0.009)
    one = settled(one, 10, phase_seconds=phases(forward=4, backward=5, optimizer=1), between_seconds=0.0)
    late = {"skew_seconds": 0.004, "slowest_rank": 0, "slowest_share": 1.0, "collectives": (ALL_REDUCE,)}
    two = settled(two, 9, phase_seconds=phases(forward=2, backward=6.5, optimizer=0.5), between_seconds=0.0, **late)

    assert answer(one, two).held_back.cause == "communication"


def test_two_ranks_without_a_base_are_judged_by_their_communication_as_well():
    _, two = two_scales(0.009)
    sent = (communication("inside", 0.004),)
    spent = phases(data=0.7, forward=2, backward=6, optimizer=0.5)
    found = answer(settled(two, 9, phase_seconds=spent, communication=sent, skew_seconds=0.0, between_seconds=0.0))

    assert found.held_back is not None and found.held_back.cause == "communication"


def test_idle_gpus_that_the_run_does_not_use_say_nothing_about_it():
    gpus = tuple(GpuSample(index, 0.95 if index == 3 else 0.0, None, None, None, None, ()) for index in range(8))
    samples = tuple(quiet_sample(rank_steps=(50 * at,), gpus=gpus) for at in range(10))
    (row,) = rows_of(make_run(noisy(60, 0.010, 1), 1, samples=samples))

    assert row.gpu_busy_share == pytest.approx(0.95)


def test_a_loss_within_the_noise_of_the_step_is_not_named():
    one, two = two_scales(0.005)
    one = settled(one, 10, phase_seconds=phases(forward=4, backward=5, optimizer=1), between_seconds=0.0)
    two = settled(two, 5.2, phase_seconds=phases(forward=2, backward=2.7, optimizer=0.5), between_seconds=0.0)

    assert answer(one, two).held_back is None


def test_calls_that_return_at_once_are_not_taken_for_communication_that_costs_nothing():
    one, two = two_scales(0.009)
    one = settled(one, 10, phase_seconds=phases(forward=4, backward=5, optimizer=1))
    spent = phases(forward=4, backward=4.5, optimizer=0.5)
    two = settled(two, 9, phase_seconds=spent, blocked_seconds=20e-6, collectives=(ALL_GATHER,), skew_seconds=0.0)
    found = answer(one, two).held_back

    assert found is not None and found.cause == "not told apart"


def test_backward_that_grows_while_forward_does_not_is_communication_although_the_reducer_waits_little():
    one, two = two_scales(0.009)
    one = settled(one, 10, phase_seconds=phases(forward=4, backward=5, optimizer=1))
    waits = (communication("inside", 0.001),)
    spent = phases(forward=2, backward=6.5, optimizer=0.5)
    two = settled(two, 9, phase_seconds=spent, communication=waits, collectives=(ALL_REDUCE,), skew_seconds=0.0)
    found = answer(one, two).held_back

    assert found is not None and found.cause == "communication" and found.seconds == pytest.approx(0.004)


def test_communication_that_was_removed_in_an_arm_of_its_own_decides():
    one, two = two_scales(0.009)
    one = settled(one, 10, phase_seconds=phases(forward=4, backward=5, optimizer=1))
    removed = (communication(BY_REMOVAL, 0.0005),)
    spent = phases(forward=4, backward=4.5, optimizer=0.5)
    two = settled(two, 9, phase_seconds=spent, communication=removed, collectives=(ALL_REDUCE,), skew_seconds=0.0)
    found = answer(one, two).held_back

    assert found is not None and found.cause == "batch too small" and found.seconds == pytest.approx(0.0035)


def test_one_rank_that_waits_for_data_is_told_so_without_any_base():
    (one,) = rows_of(make_run(noisy(60, 0.010, 1), 1))
    one = settled(one, 14, phase_seconds=phases(data=4, forward=4, backward=5, optimizer=1), between_seconds=0.0)
    found = answer(one).held_back

    assert found is not None and found.cause == "data" and "4.00 ms (29 %)" in found.evidence


def test_a_full_gpu_is_named_where_nothing_else_holds_the_run_back():
    (one,) = rows_of(make_run(noisy(60, 0.010, 1), 1))
    one = settled(one, 10, phase_seconds=phases(forward=4, backward=5, optimizer=1), between_seconds=0.0)
    found = answer(replace(one, memory_share=0.95)).held_back

    assert found is not None and found.cause == "memory" and "95 %" in found.evidence
    assert answer(replace(one, memory_share=0.5)).held_back is None


def test_doubts_about_the_number_are_named_beside_it():
    found = answer(*rows_of(make_run(noisy(10, 0.010, 1), 1)))

    assert found.imprecise == ("too few steps",) and found.doubts == ()
    assert "Imprecise: too few steps; see below." in found.text()


def gpu_samples(*seen: tuple[int, float]):
    """Samples of a rank that had made so many steps, and of its GPU, which was busy for such a share."""
    return tuple(
        quiet_sample(rank_steps=(steps,), gpus=(GpuSample(0, share, None, None, None, None, ()),))
        for steps, share in seen
    )


def test_a_gpu_is_judged_only_by_samples_between_steps_so_that_a_long_start_is_no_launch_bound_step():
    start, end = [(0, 0.0)] * 20, [(300, 0.0)] * 3
    training = [(30, 0.2), (90, 0.9), (150, 0.95), (200, 1.0), (250, 0.9), (290, 0.95)]
    (row,) = rows_of(make_run(noisy(60, 0.010, 1), 1, samples=gpu_samples(*start, *training, *end)))

    assert row.gpu_busy_share == pytest.approx(0.95)
    held = answer(row).held_back
    assert held is None or held.cause != "launch"


def test_too_few_samples_of_training_say_nothing_about_the_gpu():
    samples = gpu_samples(*[(0, 0.0)] * 20, (30, 0.1), (90, 0.1), (150, 0.1), (150, 0.1))
    (row,) = rows_of(make_run(noisy(60, 0.010, 1), 1, samples=samples))

    assert row.gpu_busy_share is None
