"""A side stream's wait holds up the computing stream where that waits for it, and nobody else."""

import pytest

from scalewise.watch.rehearsal.streams import Lanes

COMPUTING, GATHER, REDUCE = 7, 8, 9


class Event:
    """Stands for a CUDA event."""


class Tape:
    """Takes note of waits; its current stream is set by hand."""

    computing_stream = COMPUTING
    step_number = 0

    def __init__(self):
        self.waited = []
        self.current = COMPUTING

    def wait(self, ticket):
        self.waited.append(ticket)

    def side_stream(self):
        return None if self.current == COMPUTING else self.current


@pytest.fixture
def tape():
    return Tape()


@pytest.fixture
def lanes(tape):
    return Lanes(tape)


def in_stream(tape, lanes, stream, *numbers):
    """That stream waits for these messages, and an event is recorded in it."""
    tape.current = stream
    for number in numbers:
        lanes.wait((tape.step_number, number))
    event = Event()
    lanes.recorded(event, stream)
    tape.current = COMPUTING
    return event


def test_the_computing_stream_waits_at_once(tape, lanes):
    lanes.wait((0, 3))
    assert tape.waited == [(0, 3)]


def test_a_side_stream_holds_up_nobody_until_its_event_is_waited_for(tape, lanes):
    gathered = in_stream(tape, lanes, GATHER, 0)
    later = in_stream(tape, lanes, GATHER, 1)
    assert tape.waited == []
    lanes.waits_for(COMPUTING, gathered)
    assert tape.waited == [(0, 0)]
    lanes.waits_for(COMPUTING, later)
    assert tape.waited == [(0, 0), (0, 0), (0, 1)]  # once more for what has come is no wait


def test_what_one_side_stream_waits_for_in_another_comes_along(tape, lanes):
    reduced = in_stream(tape, lanes, REDUCE, 4)
    lanes.waits_for(GATHER, reduced)
    after = in_stream(tape, lanes, GATHER)
    lanes.waits_for(COMPUTING, after)
    assert tape.waited == [(0, 4)]


def test_streams_that_wait_for_each_other_in_turn_carry_each_message_once(tape, lanes):
    """FSDP2's two side streams do so at every layer; carried again and again, tickets would double each time."""
    for number in range(12):
        lanes.waits_for(REDUCE, in_stream(tape, lanes, GATHER, number))
        lanes.waits_for(GATHER, in_stream(tape, lanes, REDUCE))
    lanes.waits_for(COMPUTING, in_stream(tape, lanes, GATHER))
    assert tape.waited == [(0, number) for number in range(12)]


def test_an_event_of_the_computing_stream_brings_nothing(tape, lanes):
    event = Event()
    lanes.recorded(event, COMPUTING)
    lanes.waits_for(COMPUTING, event)
    lanes.waits_for(GATHER, event)
    assert tape.waited == []


def test_messages_of_an_earlier_step_have_arrived(tape, lanes):
    in_stream(tape, lanes, GATHER, 0)
    tape.step_number = 1
    event = in_stream(tape, lanes, GATHER, 0)
    lanes.waits_for(COMPUTING, event)
    assert tape.waited == [(1, 0)]


def test_events_are_watched_while_a_devices_clock_is_in_use(tape, lanes, monkeypatch):
    calls = []

    class CudaEvent:
        def record(self, stream=None):
            calls.append("record")

        def wait(self, stream=None):
            calls.append("wait")

    class Stream:
        def __init__(self, address):
            self.cuda_stream = address

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.Event", CudaEvent)
    monkeypatch.setattr("torch.cuda.current_stream", lambda: Stream(tape.current))
    lanes.install()
    tape.current = GATHER
    lanes.wait((0, 5))
    gathered = CudaEvent()
    gathered.record()
    tape.current = COMPUTING
    gathered.wait(object())  # a stream of another kind of device
    assert tape.waited == []
    gathered.wait(Stream(COMPUTING))
    assert tape.waited == [(0, 5)]
    tape.computing_stream = None
    gathered.wait()
    assert tape.waited == [(0, 5)]
    assert calls == ["record", "wait", "wait", "wait"]
