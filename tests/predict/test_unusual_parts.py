"""What few learnt steps had widens an interval by as much of the step as it is, and a check narrows it again."""

from dataclasses import replace
from math import exp, hypot, log

import pytest

from factories import make_estimate
from scalewise.analysis.fits import ALL_REDUCE
from scalewise.predict.answer import Checked
from scalewise.predict.link import Link, LinkCurve, Wire
from scalewise.predict.seen_errors import error_after, expected_error
from scalewise.predict.tape import Compute, Issue, Tape, Wait
from scalewise.predict.timeline import APART, Sharing
from scalewise.predict.unusual_parts import AFTER_WAITING_SECONDS, BESIDE_EACH_OTHER, NOT_MEASURED, unusual_spread

HERE = Link("measured", Wire(0.0, 0.0, 1e9), origin="measured", carrier="gloo")
WAITED = log(1 + AFTER_WAITING_SECONDS / 0.11)  # of a step of 110 ms


def step(*messages: Issue, seconds: float = 0.1) -> Tape:
    """Computing, then all messages at once, then a wait for each."""
    entries = (Compute(seconds, "backward"), *messages, *(Wait(one.number) for one in messages))
    return Tape(entries, ranks=2, rank=0, samples=None)


def sent(number: int, size_bytes: float = 1e7, kind: str = ALL_REDUCE) -> Issue:
    return Issue(number, kind, size_bytes, 0)


def test_a_long_step_with_one_message_is_as_usual():
    assert unusual_spread(step(sent(0)), HERE, 2, Sharing(beside_seconds=0.02)) == pytest.approx(WAITED)
    assert unusual_spread(step(), HERE, 2, APART) == 0.0


def test_the_shorter_a_step_the_less_certain_it_is():
    long, short = (unusual_spread(step(sent(0, 1.0), seconds=one), HERE, 2, APART) for one in (0.1, 0.002))
    assert short == pytest.approx(log(1 + AFTER_WAITING_SECONDS / 0.002), rel=0.01)
    assert long < short / 20


def test_what_messages_add_to_each_other_is_uncertain_by_its_share():
    sharing = Sharing(beside_seconds=0.02)
    found = unusual_spread(step(sent(0), sent(1), sent(2)), HERE, 2, sharing)
    whole = 0.1 + 3 * 0.01 + 2 * 0.02
    longer = log(1 + 2 * 0.02 * (exp(BESIDE_EACH_OTHER) - 1) / whole)
    assert found == pytest.approx(hypot(longer, log(1 + AFTER_WAITING_SECONDS / whole)))
    assert unusual_spread(step(sent(0), sent(1)), HERE, 2, replace(sharing, beside_seconds=-0.001)) < 0.01


def test_kinds_that_were_not_measured_are_uncertain_by_their_share():
    measured = replace(HERE, curves=(LinkCurve(2, (1e6, 1e8), (1e-3, 1e-1)),))
    gathered = step(sent(0, kind="all_gather"))
    known = unusual_spread(step(sent(0)), measured, 2, APART)
    assert unusual_spread(gathered, measured, 2, APART) > known
    line = 0.1 + 0.005
    longer = log(1 + 0.005 * (exp(NOT_MEASURED) - 1) / line)
    assert unusual_spread(gathered, measured, 2, APART) == pytest.approx(longer, rel=0.1)


def test_a_check_tells_of_the_unusual_as_of_the_rest():
    usual, unusual = (error_after([], 4, HERE, 0.1, more).spread for more in (0.0, 0.3))
    assert usual == expected_error(HERE, 4, 0.1).spread
    assert unusual == pytest.approx(hypot(usual, 0.3))
    exact = Checked(4, make_estimate(1.2, 1.1, 1.3), make_estimate(1.0, 0.99, 1.01, positive=True))
    assert error_after([exact], 4, HERE, 0.1, 0.3).spread < usual
