"""Tests of the time that a rank spends by itself."""

from statistics import median

import pytest
from case_factory import Sheet, make_case, make_wrapper
from data_sheets import MILLISECOND
from hypothesis import given
from hypothesis import strategies as st

from scalewise.doctor.queries.times import WARM_UP, longest_pause_at, own_times, quantile, waiting
from scalewise.records.notes import (
    BackwardNote,
    BatchNote,
    CollectiveDoneNote,
    ComputedNote,
    ForwardNote,
    HostReadNote,
    StepNote,
)

DURATIONS = st.integers(0, 10_000)


def first(sheet, **values):
    return make_case(sheet, ranks=2, **values).first


def window(sheet, start, *notes):
    """Notes that follow each other, each with its own length; the window's end."""
    at = start
    for kind, length, values in notes:
        at += length
        sheet.add(kind, at_ns=at, **values)
    return at


@given(st.lists(st.tuples(DURATIONS, DURATIONS, DURATIONS, DURATIONS, DURATIONS, DURATIONS), min_size=2, max_size=5))
def test_the_parts_and_the_waiting_add_up(windows):
    sheet = Sheet()
    at = 0
    for data, forward, compute, waits, read, host in windows:
        at = window(
            sheet,
            at,
            (BatchNote, data, {"wait_ns": data}),
            (ForwardNote, forward, {"duration_ns": forward}),
            (ComputedNote, compute, {"duration_ns": compute}),
            (BackwardNote, waits, {"duration_ns": compute + waits}),
            (HostReadNote, read, {"wait_ns": read}),
            (StepNote, host, {"duration_ns": host}),
        )
    found = own_times(first(sheet))
    assert len(found) == len(windows) - 1
    for time, (data, forward, compute, waits, read, host) in zip(found, windows[1:], strict=True):
        assert (time.data, time.forward, time.backward, time.host) == (data, forward, compute, host)
        assert time.waited == waits + read
        assert time.own + time.waited == time.span


def test_a_backward_pass_that_waits_for_nobody_is_all_its_own():
    sheet = Sheet()
    at = 0
    for _ in range(2):
        at = window(
            sheet,
            at,
            (ForwardNote, 10, {"duration_ns": 10, "sync": False}),
            (BackwardNote, 30, {"duration_ns": 30}),
            (StepNote, 5, {"duration_ns": 5}),
        )
    (time,) = own_times(first(sheet))
    assert (time.backward, time.waited) == (30, 0)


def test_a_collective_inside_a_forward_pass_is_not_the_pass():
    sheet = Sheet()
    at = 0
    for _ in range(2):
        at = window(
            sheet,
            at,
            (CollectiveDoneNote, 20, {"duration_ns": 20}),
            (ForwardNote, 10, {"duration_ns": 30, "wrapper": -1}),
            (BackwardNote, 8, {"duration_ns": 8}),
            (StepNote, 2, {"duration_ns": 2}),
        )
    (time,) = own_times(first(sheet, wrapped=False))
    assert (time.forward, time.waited, time.backward, time.host) == (10, 20, 8, 2)


def test_a_sharded_model_waits_in_both_passes():
    sheet = Sheet().row(make_wrapper(wrapper="FSDP"))
    at = 0
    for _ in range(2):
        at = window(
            sheet,
            at,
            (ForwardNote, 10, {"duration_ns": 10}),
            (BackwardNote, 30, {"duration_ns": 30}),
            (StepNote, 2, {}),
        )
    (time,) = own_times(first(sheet))
    assert (time.forward, time.backward, time.waited) == (0, 0, 40)


def test_steps_with_a_closure_are_not_taken_apart():
    assert own_times(first(Sheet().windows(4, closure=True))) == ()


def test_the_line_after_the_longest_pause_is_found():
    sheet = Sheet()
    at = window(sheet, 0, (StepNote, 1, {"duration_ns": 0}))
    window(
        sheet,
        at,
        (ForwardNote, 10, {"duration_ns": 9}),
        (BackwardNote, 500, {"duration_ns": 30}),
        (StepNote, 5, {"duration_ns": 5}),
    )
    rank = first(sheet)
    assert rank.places[longest_pause_at(rank.windows[1], rank.windows[0])].text == "loss.backward()"


@given(st.lists(DURATIONS, min_size=1, max_size=20))
def test_a_half_lies_below_the_median(values):
    assert quantile(values, 0.5) == median(values)
    assert quantile(values, 0.0) == min(values)
    assert quantile(values, 1.0) == max(values)


def rank(waits, rest):
    sheet = Sheet()
    at = 0
    for wait in waits:
        at += wait
        sheet.add(BatchNote, at_ns=at, wait_ns=wait)
        at += rest
        sheet.add(StepNote, at_ns=at)
    return make_case(sheet).first


@given(st.integers(0, 50), st.integers(1, 50), st.integers(1, 3))
def test_equal_steps_have_the_share_of_each(wait, rest, block):
    found = waiting(rank([wait * MILLISECOND] * 14, rest * MILLISECOND), frozenset({0}), block, 1e6, 0.25)
    assert found.wait_ns == wait * MILLISECOND
    assert found.iteration_ns == (wait + rest) * MILLISECOND
    assert found.share == pytest.approx(wait / (wait + rest))
    assert found.windows == (14 - WARM_UP) // block * block
    assert found.blocks_above in (0.0, 1.0)


def test_the_loader_that_is_waited_for_most_is_named():
    sheet = Sheet()
    for step in range(8):
        sheet.add(BatchNote, at_ns=100 * step + 10, loader=0, wait_ns=10)
        sheet.add(BatchNote, at_ns=100 * step + 60, loader=1, wait_ns=50)
        sheet.add(StepNote, at_ns=100 * step + 90)
    found = waiting(make_case(sheet).first, frozenset({0, 1}), 1, 1e6, 0.25)
    assert found.loader == 1 and found.wait_ns == 60


def test_too_few_windows_for_one_block_say_nothing():
    assert waiting(rank([1] * 4, 1), frozenset({0}), 5, 1e6, 0.25) is None
