"""Every step is written when it is over, with its messages, and without what is not its own."""

import pytest
import torch

from scalewise.records import events as ev
from scalewise.watch.rehearsal import message_log as module
from scalewise.watch.rehearsal.message_log import NO_TICKET, TapeRecorder
from scalewise.watch.step_clocks import EventClock


class Recorder:
    """Keeps the rows; its clock is set by `use_clock`, as the real one's."""

    def __init__(self):
        self.journal, self.rows, self.clock = self, [], None

    def row(self, row):
        self.rows.append(row)

    def use_clock(self, clock):
        self.clock = clock


@pytest.fixture
def clock(monkeypatch):
    """Time that stands still but for `clock.pass_`."""

    class Time:
        now = 1000

        def perf_counter_ns(self):
            return self.now

        def pass_(self, nanoseconds):
            self.now += nanoseconds

    time = Time()
    monkeypatch.setattr(module, "time", time)
    return time


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def tape(recorder, clock):
    tape = TapeRecorder(recorder)
    tape.install()
    assert recorder.clock is tape
    return tape


def test_a_step_holds_its_marks_since_it_began(tape, recorder, clock):
    tape.begin(0, True)
    tape.mark(ev.FORWARD)
    clock.pass_(10)
    ticket = tape.issue("all_reduce", 400, 8)
    clock.pass_(5)
    tape.wait(ticket)
    tape.mark(ev.OPTIMIZER)
    clock.pass_(1)
    tape.end()
    assert recorder.rows == []
    tape.close()
    (row,) = recorder.rows
    assert row.marks == (("forward", -1, 0), ("issue", 0, 10), ("wait", 0, 15), ("optimizer", -1, 15), ("end", -1, 16))
    assert (row.messages, row.clock, row.outside) == ((("all_reduce", 400, 8),), "host", ())


def test_what_the_rehearsal_itself_does_takes_no_time(tape, recorder, clock):
    tape.begin(0, True)
    clock.pass_(10)
    with tape.left_out():
        clock.pass_(990)
    tape.end()
    tape.drain()
    assert recorder.rows[0].marks == (("end", -1, 10),)


def test_messages_after_the_last_optimizer_belong_to_the_gap_before_the_next_step(tape, recorder):
    assert tape.issue("broadcast", 1, 8) == NO_TICKET  # before any step
    for step in range(2):
        tape.begin(step, True)
        tape.end()
        tape.issue("all_reduce", 4, 8)
        tape.end()  # a second optimizer
        tape.issue("barrier", 0, 8)
        tape.close()
    first, second = recorder.rows
    assert (first.messages, first.outside) == ((("all_reduce", 4, 8),), ())
    assert (second.messages, second.outside) == ((("all_reduce", 4, 8),), (("barrier", 0, 8),))


def test_a_step_without_an_optimizer_is_none(tape, recorder):
    tape.begin(0, True)
    tape.issue("all_reduce", 4, 8)
    tape.drain()
    assert recorder.rows == []


def test_a_message_of_an_earlier_step_is_not_waited_for_in_this_one(tape, recorder):
    tape.begin(0, True)
    ticket = tape.issue("all_reduce", 4, 8)
    tape.end()
    tape.close()
    tape.begin(1, True)
    tape.wait(ticket)
    tape.end()
    tape.drain()
    assert recorder.rows[1].marks == (("end", -1, 0),)


def test_a_second_wait_for_a_message_leaves_no_mark(tape, recorder):
    tape.begin(0, True)
    first, second = tape.issue("all_gather", 400, 8), tape.issue("all_gather", 400, 8)
    for ticket in (first, first, second, first):
        tape.wait(ticket)
    tape.end()
    tape.drain()
    (row,) = recorder.rows
    assert [(what, number) for what, number, _ in row.marks if what == "wait"] == [("wait", 0), ("wait", 1)]


def test_waits_beside_hold_up_only_those_who_wait_for_the_whole(tape, recorder):
    tape.begin(0, True)
    ticket = tape.issue("all_reduce", 4, 8)
    with tape.beside() as waited:
        tape.wait(ticket)
    tape.end()
    tape.drain()
    assert waited == [ticket]
    assert [what for what, _, _ in recorder.rows[0].marks] == ["issue", "end"]


def test_only_so_many_steps_are_kept(tape, recorder, monkeypatch):
    for step in range(module.MOST_STEPS + 5):
        tape.begin(step, True)
        tape.end()
        tape.close()
    assert len(recorder.rows) == module.MOST_STEPS


class DeviceClock(EventClock):
    """The recorder's own, without a device."""

    def __init__(self):
        pass

    def begin(self, step, marked):
        pass

    def mark(self, code):
        pass

    end = close = drain = lambda self: None


@pytest.fixture
def device(monkeypatch, clock):
    """Events that take the time of the test's own clock, in streams with numbers."""

    class Event:
        def __init__(self, enable_timing=False):
            self.at = None

        def record(self, stream=None):
            self.at = clock.now

        def elapsed_time(self, other):
            return (other.at - self.at) / 1e6

        def synchronize(self):
            pass

    class Stream:
        cuda_stream = 7

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: Stream)
    return Stream


def test_a_device_tells_its_own_moments_and_is_waited_for_late(tape, recorder, clock, device):
    recorder.use_clock(DeviceClock())
    for step in range(4):
        tape.begin(step, True)
        tape.mark(ev.FORWARD)
        clock.pass_(100)
        ticket = tape.issue("all_gather", 400, 8)
        with tape.left_out():
            clock.pass_(30)  # the copy that stands for the message
        tape.wait(ticket)
        clock.pass_(50)
        tape.end()
        tape.close()
        assert len(recorder.rows) == max(0, step - 1)  # the device may not be through with the last two
    tape.drain()
    assert len(recorder.rows) == 4
    assert recorder.rows[3].clock == "cuda_events"
    assert recorder.rows[3].marks == (("forward", -1, 0), ("issue", 0, 100), ("wait", 0, 100), ("end", -1, 150))


def test_another_stream_than_the_computing_one_is_a_side_stream(tape, recorder, clock, device):
    assert tape.side_stream() is None  # no device
    recorder.use_clock(DeviceClock())
    tape.begin(0, True)
    assert tape.side_stream() is None
    device.cuda_stream = 8
    assert tape.side_stream() == 8
    with tape.left_out():
        clock.pass_(30)  # beside the computing stream
    tape.end()
    tape.drain()
    assert recorder.rows[0].marks == (("end", -1, 30),)
