"""Tests of what a rank's events say about its exchanges with other ranks."""

from dataclasses import replace

import pytest
from events_read import traffic_of

from scalewise.records import events as ev
from scalewise.records.steps import EventError
from scalewise.records.traffic import StepTraffic

GRAIN = ev.CODE_MASK + 1
SIZES = {"all_reduce": 400, "all_gather": 800, "send": 60, "all_to_all": 500}


def numbers(text: str) -> list:
    """Events by name, one after the other; a kind of collective stands for one that has ended."""
    codes = {
        "forward": (ev.FORWARD, 8),
        "backward": (ev.BACKWARD, None),
        "backward_end": (ev.BACKWARD_END,),
        "optimizer": (ev.OPTIMIZER, 0),
        "step": (ev.OPTIMIZER_END,),
        "ddp": (ev.REDUCER, "all_reduce", 2, 4000),
        "buffers": (ev.REDUCER, "broadcast", 1, 40),
    }
    found: list = []
    for time, name in enumerate(text.split(), start=1):
        code, *values = codes.get(name) or (ev.COLLECTIVE_END, name, SIZES[name])
        found += [time * GRAIN | code, *values]
    return found


def sent(text: str) -> dict[StepTraffic, int]:
    """What the steps exchanged, whatever they were fed."""
    steps = traffic_of([numbers(text)]).steps
    return {replace(step, rows=None): times for step, times in steps.items()}


STEP = "forward backward backward_end optimizer step "


def test_parts_that_each_rank_gets_in_forward_are_told_apart():
    assert sent("forward all_to_all backward all_to_all backward_end optimizer step") == {
        StepTraffic(forward=500, backward=500, parted=500): 1
    }


def test_a_loop_that_sends_nothing_has_silent_steps():
    assert sent(3 * STEP) == {StepTraffic(): 3}


@pytest.mark.parametrize(
    ("loop", "moment"),
    [
        ("forward all_reduce backward backward_end optimizer step", "forward"),
        ("forward backward all_reduce backward_end optimizer step", "backward"),
        ("forward backward backward_end all_reduce optimizer step", "update"),
        ("forward backward backward_end optimizer all_reduce step", "update"),
        ("forward backward backward_end optimizer step all_reduce", "between"),
    ],
)
def test_a_collective_is_counted_where_it_was_called(loop, moment):
    assert traffic_of([numbers(f"{loop} {loop}")]).count == 2
    assert sent(f"{loop} {loop}") == {StepTraffic(**{moment: 400}): 2}


def test_what_is_sent_before_the_first_step_only_makes_the_ranks_ready():
    assert sent(f"all_reduce all_gather {STEP}{STEP}") == {StepTraffic(): 2}


def test_micro_batches_belong_to_one_step_and_their_bytes_add_up():
    micro = "forward all_gather backward backward_end all_reduce "
    assert sent(f"{micro}{micro}optimizer step {STEP}") == {StepTraffic(forward=1600, update=800): 1, StepTraffic(): 1}


def test_what_ddp_averages_is_told_apart_and_its_buffers_are_no_exchange():
    assert sent("forward buffers backward backward_end ddp optimizer step") == {StepTraffic(reduced=4000): 1}


def test_messages_from_rank_to_rank_are_kept_by_moment():
    found = sent("forward send backward backward_end send optimizer step")

    assert found == {StepTraffic(sent=60, messages=frozenset({"forward", "update"})): 1}


@pytest.mark.parametrize(
    ("loop", "rows"),
    [
        ("forward forward backward backward_end backward backward_end optimizer step", 16),  # GPipe
        ("forward backward backward_end forward backward backward_end optimizer step", 16),  # micro-batches
        ("forward forward backward backward_end optimizer step", None),  # two modules, or a piece that never came back
        ("backward backward_end optimizer step", None),
    ],
)
def test_pieces_are_counted_where_each_has_a_backward_pass(loop, rows):
    (step,) = traffic_of([numbers(loop)]).steps

    assert step.rows == rows


def test_lines_may_be_cut_anywhere_between_events():
    whole = numbers(f"forward all_reduce {STEP}")
    cut = [whole[:2], whole[2:5], whole[5:]]

    assert traffic_of(cut) == traffic_of([whole])


def test_damage_is_an_error_and_not_a_step():
    with pytest.raises(EventError):
        traffic_of([[GRAIN | ev.COLLECTIVE_END, "all_reduce", "many"]])
