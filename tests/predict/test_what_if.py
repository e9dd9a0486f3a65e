"""A step made otherwise: work and messages change where they would, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.predict.compute_work import phase_seconds, work_line
from scalewise.predict.prediction import step_seconds
from scalewise.predict.tape import Compute, Issue, Tape, Wait
from scalewise.predict.what_if import (
    among,
    bucket_bytes,
    groups_by_cap,
    groups_like,
    regrouped,
    with_accumulation,
    with_batch,
    with_smaller_gradients,
)
from taped_steps import MIB, SLOW, ddp_tape, rehearsal


def total(tape):
    return sum(one.size_bytes for one in tape.messages)


def test_among_more_ranks_only_messages_of_all_of_them_change():
    tape = Tape((Issue(0, "all_reduce", 8.0, 8), Issue(1, "all_reduce", 8.0, 2), Issue(2, "barrier", 0.0, 0)), 8, 0, 4)
    assert [one.ranks for one in among(tape, 64).messages] == [64, 2, 64]
    assert among(tape, 64).ranks == 64


def test_a_larger_batch_takes_longer_by_the_line_and_sends_the_same_gradients():
    line = work_line([rehearsal(ddp_tape(samples=one, per_sample=1e-3)) for one in (8, 32)])
    doubled = with_batch(ddp_tape(samples=32, per_sample=1e-3), 2, line)
    expected = ddp_tape(samples=64, per_sample=1e-3)
    assert phase_seconds(doubled) == pytest.approx(phase_seconds(expected))
    assert doubled.samples == 64 and total(doubled) == total(expected)


def test_activations_sent_to_the_next_stage_grow_with_the_batch():
    line = work_line([rehearsal(ddp_tape())])
    tape = Tape((Compute(1.0, "forward"), Issue(0, "send", 10.0, 2), Issue(1, "all_reduce", 7.0, 8)), 8, 0, 4)
    assert [one.size_bytes for one in with_batch(tape, 2, line).messages] == [20.0, 7.0]


def test_messages_that_grew_between_rehearsals_grow_on():
    line = work_line([rehearsal(ddp_tape(samples=one, bucket_bytes=one * 100)) for one in (8, 16)])
    assert with_batch(ddp_tape(samples=16, bucket_bytes=1600), 2, line).messages[0].size_bytes == pytest.approx(3200)


def test_accumulation_repeats_forward_and_backward_and_sends_gradients_once():
    once = ddp_tape()
    four = with_accumulation(once, 4)
    assert four.micro_batches == 4 and four.samples == 128
    assert total(four) == total(once)
    before, after = phase_seconds(once), phase_seconds(four)
    assert after["forward"] == pytest.approx(4 * before["forward"])
    assert after["backward"] == pytest.approx(4 * before["backward"])
    assert after["optimizer"] == before["optimizer"]
    assert phase_seconds(with_accumulation(ddp_tape(micro_batches=2), 2)) == pytest.approx(
        phase_seconds(ddp_tape(micro_batches=4))
    )


def test_a_script_that_sends_in_every_micro_batch_goes_on_doing_so():
    piece = (Compute(1.0, "forward"), Compute(2.0, "backward"))
    tape = Tape((*piece, Issue(0, "all_reduce", 8.0, 8), Wait(0), *piece, Issue(1, "all_reduce", 8.0, 8), Wait(1),
                 Compute(1.0, "optimizer")), 8, 0, 4, 2)  # fmt: skip
    assert len(with_accumulation(tape, 2).messages) == 4
    numbers = [one.number for one in with_accumulation(tape, 2).messages]
    assert len(set(numbers)) == 4


def test_weights_that_are_gathered_in_forward_are_gathered_for_every_micro_batch():
    tape = Tape((Issue(0, "all_gather", 8.0, 8), Wait(0), Compute(1.0, "forward"), Issue(1, "all_gather", 8.0, 8),
                 Wait(1), Compute(1.0, "forward"), Compute(1.0, "backward"), Issue(2, "reduce_scatter", 8.0, 8),
                 Wait(2), Compute(1.0, "optimizer")), 8, 0, 4)  # fmt: skip
    kinds = [one.kind for one in with_accumulation(tape, 2).messages]
    assert kinds.count("reduce_scatter") == 1 and kinds.count("all_gather") == 4


def test_a_step_without_a_backward_pass_cannot_be_accumulated():
    assert with_accumulation(Tape((Compute(1.0, "own"),), 2, 0, None), 2) is None


def test_smaller_gradients_leave_other_messages_alone():
    tape = Tape((Issue(0, "all_reduce", 8.0, 8), Compute(1.0, "backward"), Issue(1, "all_reduce", 8.0, 8),
                 Issue(2, "all_gather", 8.0, 8), Issue(3, "all_reduce", 8.0, 2)), 8, 0, 4)  # fmt: skip
    assert [one.size_bytes for one in with_smaller_gradients(tape, 0.5).messages] == [8.0, 4.0, 8.0, 8.0]


def test_buckets_close_as_soon_as_they_hold_enough():
    assert groups_by_cap([1, 1, 1, 5, 1], 2) == (2, 2, 1)
    assert groups_by_cap([1, 1], 100) == (2,)
    assert groups_by_cap([], 100) == ()


def test_buckets_of_a_fine_tape_can_be_made_those_that_are():
    assert groups_like([1, 1, 2, 4], [2, 6]) == (2, 2)
    fine = ddp_tape(buckets=16, bucket_bytes=2 * MIB)
    coarse = regrouped(fine, groups_like(bucket_bytes(fine), bucket_bytes(ddp_tape(buckets=4, bucket_bytes=8 * MIB))))
    assert step_seconds(coarse, SLOW, 8) == pytest.approx(step_seconds(ddp_tape(), SLOW, 8))


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=30), st.floats(1, 1e7))
def test_regrouping_loses_no_byte_and_no_wait(sizes, cap):
    entries = [
        part for at, size in enumerate(sizes) for part in (Compute(1e-3, "backward"), Issue(at, "all_reduce", size, 8))
    ]
    fine = Tape((*entries, *(Wait(at) for at in range(len(sizes)))), 8, 0, None)
    groups = groups_by_cap(sizes, cap)
    found = regrouped(fine, groups)
    assert sum(groups) == len(sizes) and len(found.messages) == len(groups)
    assert total(found) == pytest.approx(sum(sizes))
    assert {one.number for one in found.entries if isinstance(one, Wait)} == {one.number for one in found.messages}
    assert step_seconds(found, SLOW, 8) >= found.compute_seconds


def test_a_gradient_waited_for_before_its_bucket_is_full_is_waited_for_when_it_is():
    tape = Tape((Compute(1.0, "backward"), Issue(0, "all_reduce", 4.0, 8), Wait(0), Compute(1.0, "backward"),
                 Issue(1, "all_reduce", 4.0, 8), Wait(1)), 8, 0, None)  # fmt: skip
    found = regrouped(tape, (2,))
    assert [type(one).__name__ for one in found.entries] == ["Compute", "Compute", "Issue", "Wait", "Wait"]
