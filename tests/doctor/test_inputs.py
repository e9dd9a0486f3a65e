"""Tests of which ranks are replicas and what they were fed."""

import pytest
from case_factory import Sheet, make_case, make_wrapper

from scalewise.doctor.inputs import BY_HAND, Replicas, comparable_inputs, replica_groups, same_inputs


def reduced(size_bytes, operation="all_reduce", **values):
    sheet = Sheet()
    for _ in range(4):
        sheet.forward(wrapper=-1).backward().collective(operation, size_bytes=size_bytes, **values).step()
    return sheet


def test_ranks_of_a_ddp_are_replicas():
    case = make_case(Sheet().windows(3), ranks=3)
    assert replica_groups(case) == (Replicas((0, 1, 2), "DistributedDataParallel"),)


def test_a_model_that_is_called_past_its_wrapper_still_belongs_to_it():
    case = make_case(Sheet().windows(3, forward={"wrapper": -1, "bypassed": 0}), ranks=2)
    assert [group.ranks for group in replica_groups(case)] == [(0, 1)]


def test_a_wrapper_that_never_trains_makes_no_replicas():
    sheet = Sheet().windows(3, forward={"wrapper": -1}).forward(trains=False)
    assert replica_groups(make_case(sheet, ranks=2)) == ()


def test_a_sharded_model_averages_within_its_group():
    sheet = Sheet().windows(3).row(make_wrapper(wrapper="FSDP"))
    assert replica_groups(make_case(sheet, ranks=2))[0].how == "FSDP"


def test_a_data_parallel_model_of_one_process_has_no_replicas():
    sheet = Sheet().windows(3).row(make_wrapper(wrapper="DataParallel", ranks=()))
    assert replica_groups(make_case(sheet, ranks=2)) == ()


@pytest.mark.parametrize("operation", ["all_reduce", "reduce_scatter"])
def test_gradients_reduced_by_hand_make_replicas_of_their_group(operation):
    assert replica_groups(make_case(reduced(4000, operation), ranks=2, wrapped=False)) == (Replicas((0, 1), BY_HAND),)
    some = make_case(reduced(4000, operation, ranks=[0, 2]), ranks=3, wrapped=False)
    assert replica_groups(some) == (Replicas((0, 2), BY_HAND),)


def test_a_loss_that_is_reduced_makes_no_replicas():
    assert replica_groups(make_case(reduced(4), ranks=2, wrapped=False)) == ()
    assert replica_groups(make_case(reduced(4000, "broadcast"), ranks=2, wrapped=False)) == ()


def test_digests_are_counted_on_the_rank_that_has_fewest():
    group = Replicas((0, 1), "DistributedDataParallel")
    case = make_case(Sheet().windows(5), Sheet().windows(3))
    assert comparable_inputs(case, group) == 3
    assert comparable_inputs(make_case(Sheet().windows(5)), group) == 0
    assert same_inputs(make_case(Sheet().windows(5)), group) == ()


def test_inputs_without_digests_are_not_equal():
    case = make_case(Sheet().windows(5, forward={"digest": None}), ranks=2)
    assert same_inputs(case, Replicas((0, 1), "DistributedDataParallel")) == ()
