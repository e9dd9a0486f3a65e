"""What errors are expected before a check, and how checks move and narrow them, the more the nearer their ranks."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_estimate
from scalewise.predict.answer import Checked
from scalewise.predict.link import Link, Wire
from scalewise.predict.prediction import QUANTILE
from scalewise.predict.seen_errors import ALIKE, FILE, UNCHECKED, error_after, expected_error, seen_errors

WIRE = Wire(1e-4, 0.0, 1e9)
HERE = Link("measured", WIRE, origin="measured", carrier="gloo")
MOST = max(one.ranks for one in seen_errors())


def checked(ranks: int, ratio: float, width: float = 0.01) -> Checked:
    measured = make_estimate(1.0, exp(-width), exp(width), positive=True)
    return Checked(ranks, make_estimate(ratio, 0.9 * ratio, 1.1 * ratio), measured)


def test_what_was_seen_is_expected_again():
    for one in seen_errors():
        found = expected_error(HERE, one.ranks, one.communication + 0.01)
        assert (found.shift, found.spread) == (one.shift, one.spread)


def test_the_file_says_where_its_points_were_seen():
    text = FILE.read_text(encoding="utf-8")
    assert text.startswith("# ") and "cores" in text.splitlines()[0]
    assert all(one.spread > 0 and 0 <= one.communication < 1 for one in seen_errors())


def test_more_ranks_than_were_ever_checked_are_less_certain():
    known, beyond, far = (expected_error(HERE, ranks, 0.3).spread for ranks in (MOST, 2 * MOST, 8 * MOST))
    assert known < beyond < far


@pytest.mark.parametrize("link", [replace(HERE, origin="catalogue"), replace(HERE, carrier="nccl")])
def test_of_other_links_nothing_was_seen(link):
    found = expected_error(link, 8, 0.3)
    assert (found.shift, found.spread) == (0.0, UNCHECKED)


def test_without_a_check_the_expected_error_stands():
    assert error_after([], 4, HERE, 0.1) == expected_error(HERE, 4, 0.1)


@given(st.floats(0.6, 1.6), st.sampled_from([2, 4, 8, 16]))
def test_a_check_moves_the_step_of_as_many_ranks_most(ratio, ranks):
    moved = {
        many: error_after([checked(ranks, ratio)], many, HERE, 0.1).shift - expected_error(HERE, many, 0.1).shift
        for many in (ranks, 2 * ranks, 4 * ranks)
    }
    assert all(shift * log(ratio) >= 0 for shift in moved.values())
    assert abs(moved[ranks]) <= abs(log(ratio))
    spreads = [expected_error(HERE, many, 0.1).spread for many in (ranks, 2 * ranks)]
    assert moved[2 * ranks] == pytest.approx(ALIKE * moved[ranks] * spreads[1] / spreads[0])


@given(st.sampled_from([2, 4, 8]))
def test_a_check_narrows_and_a_better_measured_one_narrows_more(ranks):
    before = expected_error(HERE, ranks, 0.1).spread
    well, badly = (error_after([checked(ranks, 1.1, width)], ranks, HERE, 0.1).spread for width in (0.01, 0.2))
    assert well < badly < before * 1.5
    assert well < 0.6 * before


def test_checks_that_contradict_each_other_widen():
    agree = error_after([checked(8, 1.1)] * 3, 8, HERE, 0.1)
    apart = error_after([checked(8, 0.8), checked(8, 1.1), checked(8, 1.5)], 8, HERE, 0.1)
    assert apart.spread > 2 * agree.spread


@pytest.mark.parametrize("lasting", [0.05, 0.1, 0.15])
def test_intervals_after_a_check_hold_as_often_as_they_say(lasting):
    """Scripts differ by a lasting error; the check and the step that is predicted differ by chance, 4 % of each."""
    random = np.random.default_rng(3)
    usual, held, trials = expected_error(HERE, 4, 0.1).shift, 0, 2000
    for _ in range(trials):
        bias = lasting * random.normal()
        found = error_after([checked(4, exp(bias + 0.04 * random.normal()))], 4, HERE, 0.1)
        held += abs(bias + usual + 0.04 * random.normal() - found.shift) <= QUANTILE * found.spread
    assert 0.83 <= held / trials <= 0.97
