"""Tests of which ranks are replicas and what they were fed."""

import pytest
from case_factory import Sheet, make_case, make_wrapper
from data_sheets import LINE, loader_of
from hypothesis import given
from hypothesis import strategies as st

from scalewise.doctor.queries.inputs import (
    BY_HAND,
    Replicas,
    comparable_inputs,
    dataset_name,
    epochs,
    replica_groups,
    same_inputs,
    training_lines,
    training_loaders,
    training_rows,
    twin,
    with_arguments,
)
from scalewise.records.examination import PlaceRow


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


def line(text):
    return PlaceRow(0, "/scripts/train.py", 1, "main", text)


def first(sheet):
    return make_case(sheet).first


def test_a_loader_whose_batches_are_followed_by_backward_feeds_training():
    sheet = Sheet().windows(4)
    for _ in range(3):
        sheet.batch(loader=1).forward(trains=False)
    sheet.windows(2)
    assert training_loaders(first(sheet)) == {0}


def test_a_teacher_that_looks_at_the_batch_first_changes_nothing():
    sheet = Sheet()
    for _ in range(3):
        sheet.batch().forward(trains=False, wrapper=-1).forward().backward().step()
    assert training_loaders(first(sheet)) == {0}


def test_two_loaders_may_feed_one_step():
    sheet = Sheet()
    for _ in range(3):
        sheet.batch(loader=0).batch(loader=1).forward().backward().step()
    assert training_loaders(first(sheet)) == {0, 1}


def test_a_batch_that_is_fetched_ahead_counts_for_training():
    sheet = Sheet().batch()
    for _ in range(4):
        sheet.batch().forward().backward().step()
    assert training_loaders(first(sheet)) == {0}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.booleans())
def test_every_batch_is_in_one_epoch(lengths, over):
    sheet = Sheet()
    for length in lengths:
        sheet.epoch().windows(length)
        if over:
            sheet.exhausted()
    found = epochs(first(sheet), 0)
    assert [one.batches for one in found] == lengths
    assert [one.backwards for one in found] == lengths
    assert [len(one.fed) for one in found] == lengths
    assert all(one.exhausted == over for one in found)


def test_batches_of_other_loaders_are_not_counted():
    sheet = (
        Sheet().epoch().windows(2).epoch(loader=1).batch(loader=1).forward(trains=False).exhausted(loader=1).window()
    )
    assert [one.batches for one in epochs(first(sheet), 0)] == [3]
    assert [one.batches for one in epochs(first(sheet), 1)] == [1]
    assert epochs(first(sheet), 2) == ()


def test_the_same_loader_of_another_rank_is_found_by_its_line():
    one, other = Sheet(), Sheet()
    loader_of(one, index=0)
    other.place(LINE)  # the same line of the script has the same number on all ranks
    loader_of(other, index=0, place=other.place("probe = DataLoader(dataset)"))
    loader_of(other, index=1)
    case = make_case(one.windows(1), other.windows(1))
    assert twin(case.ranks[0], case.ranks[0].loaders[0], case.ranks[1]).index == 1
    assert twin(case.ranks[1], case.ranks[1].loaders[0], case.ranks[0]) is None


def test_loaders_made_anew_at_one_line_are_one_line():
    sheet = Sheet()
    for number in range(3):
        loader_of(sheet, index=number).batch(loader=number).forward().backward().step()
    rank = first(sheet)
    assert [row.index for row in training_rows(rank)] == [0, 1, 2]
    assert [row.index for row in training_lines(rank)] == [0]
    assert twin(rank, rank.loaders[2], rank).index == 2


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        (LINE, {"num_workers": "2"}, LINE[:-1] + ", num_workers=2)"),
        ("a = DataLoader(d, num_workers=0)  # slow", {"num_workers": "4"}, "a = DataLoader(d, num_workers=4)"),
        ("a = DataLoader(d, shuffle=True, batch_size=f(3))", {"shuffle": ""}, "a = DataLoader(d, batch_size=f(3))"),
        ("a = DataLoader(d, shuffle=True)", {"shuffle": "", "sampler": "s"}, "a = DataLoader(d, sampler=s)"),
        ("a = DataLoader(", {"num_workers": "2"}, "otherwise"),
        ("train(DataLoader(d), 3)", {"num_workers": "2"}, "train(DataLoader(d, num_workers=2), 3)"),
        ("a = loaders.train()", {"num_workers": "2"}, "otherwise"),
    ],
)
def test_the_fix_is_the_scripts_own_line(text, arguments, expected):
    assert with_arguments(line(text), "otherwise", **arguments) == expected


def test_without_a_line_there_is_a_general_fix():
    assert with_arguments(None, "otherwise", num_workers="2") == "otherwise"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("loader = DataLoader(train_set, 8)", "train_set"),
        ("loader = DataLoader(dataset=self.data, batch_size=8)", "self.data"),
        ("loader = DataLoader(Points(128), 8)", "dataset"),
        ("", "dataset"),
    ],
)
def test_the_dataset_is_called_as_the_script_calls_it(text, name):
    assert dataset_name(line(text)) == name
