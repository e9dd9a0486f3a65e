"""Tests of how events become steps: laws for every loop, and the cases that differ from the plain one."""

import pytest
from events_read import steps_of
from hypothesis import given
from hypothesis import strategies as st

from scalewise.records import events as ev
from scalewise.records.rows import StepRow
from scalewise.records.steps import EventError, StepMachine

GRAIN = ev.CODE_MASK + 1


def numbers(*events: tuple) -> list:
    """Events written as (code, time in grains, values...)."""
    return [value for code, time, *values in events for value in (time * GRAIN | code, *values)]


def one_step(start: int, optimizer: int = 0) -> list:
    """A plain step of ten grains: forward 4, backward 3, own code 1, optimizer 2."""
    return numbers(
        (ev.FORWARD, start, 32),
        (ev.BACKWARD, start + 4, 0.5),
        (ev.BACKWARD_END, start + 7),
        (ev.OPTIMIZER, start + 8, optimizer),
        (ev.OPTIMIZER_END, start + 10),
    )


def test_a_plain_step_is_split_into_its_phases():
    (row,) = steps_of([one_step(100)])

    assert (row.step_ns, row.forward_ns, row.backward_ns) == (10 * GRAIN, 4 * GRAIN, 3 * GRAIN)
    assert (row.optimizer_ns, row.rest_ns, row.data_ns) == (2 * GRAIN, 1 * GRAIN, 0)
    assert (row.micro_batches, row.samples, row.loss, row.between_ns) == (1, 32, 0.5, None)


def test_time_between_steps_is_told_apart_from_waiting_for_data():
    data = numbers((ev.DATA, 113), (ev.DATA_END, 118))
    rows = steps_of([one_step(100), data, one_step(120)])

    assert (rows[1].between_ns, rows[1].data_ns, rows[1].data_inside_ns) == (5 * GRAIN, 5 * GRAIN, 0)


def test_a_step_opens_where_torch_func_began_not_where_it_calls_the_model():
    began = numbers((ev.DATA, 90), (ev.DATA_END, 95), (ev.TRANSFORM, 97))
    (row,) = steps_of([began, one_step(100)])

    assert (row.step_ns, row.forward_ns) == (13 * GRAIN, 7 * GRAIN)
    assert row.data_ns == 5 * GRAIN


def test_torch_func_inside_an_open_step_opens_no_other():
    inside = numbers((ev.FORWARD, 100, 8), (ev.TRANSFORM, 101), (ev.FORWARD, 102, 8), (ev.OPTIMIZER, 103, 0))
    (row,) = steps_of([inside, numbers((ev.OPTIMIZER_END, 104))])

    assert (row.step_ns, row.forward_ns) == (4 * GRAIN, 3 * GRAIN)


def test_batches_of_an_evaluation_before_a_step_are_not_its_samples():
    passes = [
        event
        for time in (10, 20)
        for event in ((ev.FORWARD, time, 32), (ev.BACKWARD, time + 2, 0.5), (ev.BACKWARD_END, time + 4))
    ]
    step = numbers(*passes, (ev.OPTIMIZER, 30, 0), (ev.OPTIMIZER_END, 31))
    evaluated = numbers((ev.BATCH, 1, 5), (ev.BATCH, 2, 32), (ev.EVALUATED, 3), (ev.BATCH, 3, 32))

    assert [row.samples for row in steps_of([evaluated, step])] == [32]


def test_two_micro_batches_with_data_between_are_one_step():
    rows = steps_of(
        [
            numbers((ev.FORWARD, 10, 8), (ev.BACKWARD, 12, 0.25), (ev.BACKWARD_END, 14)),
            numbers((ev.DATA, 15), (ev.DATA_END, 18)),
            numbers((ev.FORWARD, 18, 8), (ev.BACKWARD, 20, 0.5), (ev.BACKWARD_END, 22)),
            numbers((ev.OPTIMIZER, 22, 0), (ev.OPTIMIZER_END, 23)),
        ]
    )

    assert [(row.micro_batches, row.samples, row.loss) for row in rows] == [(2, 16, 0.75)]
    assert rows[0].data_inside_ns == 3 * GRAIN and rows[0].step_ns == 13 * GRAIN


def test_a_second_optimizer_on_the_same_gradients_belongs_to_the_step():
    second = numbers((ev.OPTIMIZER, 112, 1), (ev.OPTIMIZER_END, 115))
    rows = steps_of([one_step(100), second, one_step(120), numbers((ev.OPTIMIZER, 132, 1), (ev.OPTIMIZER_END, 135))])

    assert [row.step_ns for row in rows] == [15 * GRAIN, 15 * GRAIN]
    assert rows[1].between_ns == 5 * GRAIN


def received(start: int, end: int, kind: str = "recv") -> list:
    return numbers((ev.COLLECTIVE, start), (ev.COLLECTIVE_END, end, kind, 64))


def test_the_step_of_a_later_stage_begins_when_it_receives():
    rows = steps_of([one_step(100), received(112, 113), received(114, 115), one_step(120)])

    assert (rows[1].step_ns, rows[1].between_ns) == (18 * GRAIN, 2 * GRAIN)
    assert (rows[1].forward_ns, rows[1].rest_ns) == (4 * GRAIN, 9 * GRAIN)


@pytest.mark.parametrize(
    "after",
    [received(114, 115, "send"), received(114, 115, "all_reduce"), numbers((ev.DATA, 114), (ev.DATA_END, 115))],
    ids=["neighbours averaged", "something reduced", "a batch fetched"],
)
def test_receiving_between_steps_for_another_reason_opens_no_step(after):
    rows = steps_of([one_step(100), received(112, 113), after, one_step(120)])

    assert rows[1].step_ns == 10 * GRAIN


def test_a_closure_runs_forward_and_backward_inside_the_optimizer_s_step():
    closure = numbers(
        (ev.OPTIMIZER, 100, 0),
        (ev.FORWARD, 101, 4),
        (ev.BACKWARD, 103, 1.0),
        (ev.BACKWARD_END, 106),
        (ev.OPTIMIZER_END, 110),
    )
    rows = steps_of([closure, [*closure]])

    assert len(rows) == 2
    assert (rows[0].forward_ns, rows[0].backward_ns, rows[0].optimizer_ns) == (2 * GRAIN, 3 * GRAIN, 5 * GRAIN)


def test_without_a_module_call_the_step_begins_when_its_data_arrived():
    rows = steps_of(
        [
            one_step(100),
            numbers((ev.DATA, 112), (ev.DATA_END, 115), (ev.BACKWARD, 120, None), (ev.BACKWARD_END, 122)),
            numbers((ev.OPTIMIZER, 122, 0), (ev.OPTIMIZER_END, 123)),
        ]
    )

    assert rows[1].step_ns == 8 * GRAIN and rows[1].loss is None


def test_the_loss_shown_to_the_scaler_stands_for_the_scaled_one():
    rows = steps_of(
        [
            numbers((ev.FORWARD, 10, 8), (ev.LOSS, 11, 0.5), (ev.BACKWARD, 12, 32768.0), (ev.BACKWARD_END, 13)),
            numbers((ev.OPTIMIZER, 14, 0), (ev.SCALER, 15, True, 65536.0), (ev.OPTIMIZER_END, 16)),
        ]
    )

    assert (rows[0].loss, rows[0].skipped, rows[0].scale) == (0.5, True, 65536.0)


def test_a_loss_that_is_not_finite_is_said_to_be():
    rows = steps_of([numbers((ev.FORWARD, 1, 8), (ev.BACKWARD, 2, float("nan")), (ev.OPTIMIZER, 3, 0)), one_end(4)])

    assert rows[0].loss is None and rows[0].non_finite


def one_end(time: int) -> list:
    return numbers((ev.OPTIMIZER_END, time))


def test_the_device_s_own_times_stand_in_for_the_host_s_even_when_they_come_late():
    late = numbers((ev.DEVICE, 300, 0, 9000, None, [100, 4000, 3000, 1900, 0], 0.125))
    rows = steps_of([one_step(100), one_step(120), late])

    assert (rows[0].step_ns, rows[0].forward_ns, rows[0].rest_ns, rows[0].loss) == (9000, 4000, 100, 0.125)
    assert rows[1].step_ns == 10 * GRAIN


def test_steps_that_were_only_counted_leave_a_gap_in_the_numbers():
    rows = steps_of([one_step(100), numbers((ev.WAKE, 200, 32)), one_step(204)])

    assert [row.step for row in rows] == [0, 32]
    assert rows[1].between_ns == 4 * GRAIN, "counted from the end of the last step that was not watched"


def test_after_a_lost_line_the_open_step_is_dropped_and_the_next_is_whole():
    machine = StepMachine()
    machine.feed(one_step(100)[:4])
    machine.gap()
    machine.feed(one_step(200))

    assert [row.step_ns for row in machine.steps()] == [10 * GRAIN]


@pytest.mark.parametrize("broken", [[1.5], ["x"], [-1], [32 | ev.FORWARD], [32 | ev.AUTOCAST, 7], [[1]]])
def test_what_is_not_a_list_of_events_is_refused(broken):
    with pytest.raises(EventError):
        steps_of([broken])


STEP_EVENTS = [
    (ev.DATA,),
    (ev.DATA_END,),
    (ev.PAUSE,),
    (ev.COLLECTIVE,),
    (ev.COLLECTIVE_END, "all_reduce", 64),
    (ev.COLLECTIVE_END, "recv", 64),
]
STEP_EVENTS += [(ev.FORWARD, 8), (ev.FORWARD, None), (ev.BACKWARD, 0.5), (ev.BACKWARD_END,), (ev.GRAD_END,)]
STEP_EVENTS += [(ev.OPTIMIZER, 0), (ev.OPTIMIZER, 1), (ev.OPTIMIZER_END,), (ev.AUTOCAST, "bfloat16"), (ev.COMPILED,)]
STEP_EVENTS += [(ev.ROOT, 0), (ev.ROOT, 1), (ev.BATCH, 8), (ev.UNUSED, 1, 0)]
STEP_EVENTS += [(ev.REDUCER, "all_reduce", 2, 4096), (ev.SCALER, False, 2.0), (ev.LOSS, 1.0), (ev.WAKE, 7)]


@given(st.lists(st.tuples(st.sampled_from(STEP_EVENTS), st.integers(0, 50)), max_size=80))
def test_the_phases_of_every_step_add_up_whatever_a_loop_does(loop):
    time, events = 1, []
    for (code, *values), pause in loop:
        time += pause
        events += numbers((code, time, *values))
    rows = steps_of([events])

    assert [row.step for row in rows] == sorted({row.step for row in rows})
    for row in rows:
        check_laws(row)


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=2, max_size=9), st.data())
def test_the_laws_hold_where_a_step_turns_out_to_have_begun_later(calls, data):
    time, begins, events = 100, [], [*one_step(80)]
    for pause, fetches in calls:
        begins.append(time)
        events += numbers((ev.FORWARD, time, 8))
        time += pause
        if fetches:
            events += numbers(
                (
                    ev.DATA,
                    time,
                ),
                (ev.DATA_END, time + 2),
            )
            time += 2
    dropped = data.draw(st.integers(0, len(begins) - 1))
    events += numbers((ev.BACKWARD, time, None), (ev.BACKWARD_END, time + 3))
    events += numbers((ev.UNUSED, time + 3, dropped, begins[dropped] * GRAIN | ev.FORWARD))
    events += numbers((ev.OPTIMIZER, time + 4, 0), (ev.OPTIMIZER_END, time + 5))
    first, row = steps_of([events])

    check_laws(row)
    assert row.step_ns == (time + 5 - begins[dropped]) * GRAIN
    loop_ns = row.step_ns + row.between_ns + row.data_ns - row.data_inside_ns
    assert first.at_ns + first.step_ns + loop_ns == row.at_ns + row.step_ns


def test_calls_that_led_to_no_gradient_are_neither_in_the_step_nor_in_its_samples():
    rollout = numbers((ev.ROOT, 200, 0), (ev.FORWARD, 200, 4), (ev.FORWARD, 210, 4), (ev.ROOT, 215, 1))
    update = numbers((ev.FORWARD, 220, 20), (ev.BACKWARD, 224, None), (ev.BACKWARD_END, 227))
    end = numbers((ev.UNUSED, 227, 2, 220 * GRAIN | ev.FORWARD), (ev.OPTIMIZER, 228, 0), (ev.OPTIMIZER_END, 230))
    row = steps_of([one_step(100), rollout, update, end])[1]

    assert (row.step_ns, row.forward_ns, row.between_ns) == (10 * GRAIN, 4 * GRAIN, 110 * GRAIN)
    assert (row.samples, row.opened_by, row.samples_at) == (20, 1, 1)


def test_a_call_that_feeds_the_others_stays_in_the_step_but_does_not_count_samples():
    feeding = numbers((ev.ROOT, 200, 0), (ev.FORWARD, 200, 16), (ev.ROOT, 202, 1), (ev.FORWARD, 203, 16))
    again = numbers((ev.FORWARD, 204, 16), (ev.BACKWARD, 205, None), (ev.BACKWARD_END, 206), (ev.UNUSED, 206, 1, 0))
    row = steps_of([feeding, again, numbers((ev.OPTIMIZER, 207, 0), (ev.OPTIMIZER_END, 210))])[0]

    assert (row.step_ns, row.samples, row.opened_by, row.samples_at) == (10 * GRAIN, 16, 0, 1)


def test_gradients_by_autograd_grad_alone_are_the_passes_of_their_step():
    grad = numbers((ev.FORWARD, 10, 8), (ev.BACKWARD, 12, None), (ev.GRAD_END, 14))
    (row,) = steps_of([grad, numbers((ev.OPTIMIZER, 15, 0), (ev.OPTIMIZER_END, 16))])

    assert (row.micro_batches, row.samples) == (1, 8)


def test_a_gradient_penalty_is_part_of_the_pass_that_follows():
    grad = numbers((ev.FORWARD, 10, 8), (ev.BACKWARD, 12, None), (ev.GRAD_END, 14))
    later = numbers((ev.BACKWARD, 14, 0.5), (ev.BACKWARD_END, 15), (ev.OPTIMIZER, 15, 0), (ev.OPTIMIZER_END, 16))
    (row,) = steps_of([grad, later])

    assert (row.micro_batches, row.samples) == (1, 8)


def check_laws(row: StepRow) -> None:
    parts = (row.forward_ns, row.backward_ns, row.optimizer_ns, row.rest_ns, row.data_inside_ns)
    assert sum(parts) == row.step_ns
    assert min(parts) >= 0 and row.data_ns >= row.data_inside_ns
    assert row.between_ns is None or row.between_ns >= 0


def test_waiting_for_a_turn_is_in_no_other_time():
    turn = numbers((ev.TURN, 112), (ev.TURN_END, 150))
    rows = steps_of([one_step(100), turn, one_step(151)])

    assert (rows[0].turn_ns, rows[1].turn_ns) == (None, 38 * GRAIN)
    assert (rows[1].between_ns, rows[1].step_ns) == (3 * GRAIN, 10 * GRAIN)


def test_who_waited_in_vain_was_not_in_turn_and_is_not_charged_for_it():
    left = numbers((ev.TURN, 112), (ev.TURN_LEFT, 150))
    rows = steps_of([one_step(100), left, one_step(151), one_step(165)])

    assert [row.turn_ns for row in rows] == [None] * 3
    assert [row.between_ns for row in rows] == [None, 3 * GRAIN, 4 * GRAIN]


def test_a_turn_that_came_after_an_unseen_forward_is_taken_out_of_the_step():
    unseen = numbers(
        (ev.DATA, 112), (ev.DATA_END, 114), (ev.TURN, 120), (ev.TURN_END, 150),
        (ev.BACKWARD, 151, None), (ev.BACKWARD_END, 155), (ev.OPTIMIZER, 155, 0), (ev.OPTIMIZER_END, 157),
    )  # fmt: skip
    row = steps_of([one_step(100), unseen])[1]

    assert (row.turn_ns, row.step_ns) == (30 * GRAIN, 13 * GRAIN)
    assert (row.backward_ns, row.optimizer_ns, row.rest_ns) == (4 * GRAIN, 2 * GRAIN, 7 * GRAIN)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), min_size=1, max_size=20))
def test_turns_steps_and_what_lies_between_add_up_to_the_whole_loop(gaps):
    lists, now = [one_step(100)], 110
    for own, waited, came in gaps:
        lists.append(numbers((ev.TURN, now + own), (ev.TURN_END if came else ev.TURN_LEFT, now + own + waited)))
        now += own + waited
        lists.append(one_step(now))
        now += 10
    rows = steps_of(lists)
    assert [row.between_ns for row in rows[1:]] == [own * GRAIN for own, _, _ in gaps]
    assert [row.turn_ns for row in rows[1:]] == [waited * GRAIN if came else None for _, waited, came in gaps]


def test_a_step_whose_optimizer_raised_is_no_step_and_the_next_one_is():
    raised = numbers((ev.FORWARD, 112, 8), (ev.BACKWARD, 113, 0.1), (ev.BACKWARD_END, 114), (ev.OPTIMIZER, 115, 0))
    dropped = numbers((ev.DROPPED, 119))
    rows = steps_of([one_step(100), raised, dropped, one_step(120), one_step(140)])

    assert [row.step for row in rows] == [0, 1, 2]
    assert (rows[1].step_ns, rows[1].between_ns, rows[1].loss) == (10 * GRAIN, 10 * GRAIN, 0.5)
