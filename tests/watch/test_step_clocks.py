"""Tests of the device's clock that need no device."""

from scalewise.records import events as ev
from scalewise.records.draft import BACKWARD, FORWARD, OPTIMIZER, OWN
from scalewise.watch.step_clocks import EventClock, _DeviceStep


def clock_in_step(*marks):
    """A clock whose step has these marks; events are named instead of recorded."""
    clock = EventClock.__new__(EventClock)
    clock._free = []
    clock._current = _DeviceStep(0, True, None, "first")
    clock._current.marks = list(marks)
    names = iter("uvwxyz")
    clock._record = lambda: next(names)
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


def test_fetching_after_a_marked_step_has_ended_is_not_in_it():
    clock = clock_in_step((FORWARD, "a"))
    clock.end()
    clock.mark(ev.DATA)
    clock.mark(ev.DATA_END)

    assert (clock._current.marks, clock._current.last) == ([(FORWARD, "a")], "u")


def test_a_second_optimizer_follows_the_end_of_the_first():
    clock = clock_in_step((OPTIMIZER, "a"))
    clock.end()
    clock.mark(ev.OPTIMIZER)
    clock.end()

    assert (clock._current.marks, clock._current.last) == ([(OPTIMIZER, "a"), (OWN, "u"), (OPTIMIZER, "v")], "w")
