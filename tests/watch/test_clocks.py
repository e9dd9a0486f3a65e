"""Tests of the device's clock that need no device."""

from scalewise.records.draft import BACKWARD, FORWARD, OWN
from scalewise.watch.clocks import EventClock, _DeviceStep


def clock_in_step(*marks):
    """A clock whose step has these marks; events are named instead of recorded."""
    clock = EventClock.__new__(EventClock)
    clock._free = []
    clock._current = _DeviceStep(0, True, None, "first")
    clock._current.marks = list(marks)
    return clock


def test_a_step_that_began_later_begins_with_the_mark_of_that_call():
    clock = clock_in_step((FORWARD, "a"), (OWN, "b"), (FORWARD, "c"), (BACKWARD, "d"))
    clock.begin_later(1)

    assert (clock._current.first, clock._current.opens_in) == ("c", FORWARD)
    assert clock._current.marks == [(BACKWARD, "d")]
    assert clock._free == ["first", "a", "b"], "no event is free while it is in use, and none is free twice"


def test_a_call_that_was_not_marked_leaves_the_step_as_it_is():
    clock = clock_in_step((FORWARD, "a"), (BACKWARD, "b"))
    clock.begin_later(3)

    assert (clock._current.first, clock._current.marks) == ("first", [(FORWARD, "a"), (BACKWARD, "b")])
    assert clock._free == []
