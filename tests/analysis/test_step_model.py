"""The step's parts add up, and the balance points are where the two sides are equal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.link_fit import fit_link
from scalewise.analysis.propagate import exact
from scalewise.analysis.step_model import ComputePoint, batch_at_balance, fit_compute, rate_at_balance, step_parts

LINK = fit_link([(4.0 * 8**power, 2e-4 + 4.0 * 8**power / 1e9) for power in range(9)], 2)
VOLUME = (2.0, 8e6)


def line(overhead, sample, batches=(16, 32, 64, 128)):
    return fit_compute([ComputePoint(b, exact(overhead + sample * b)) for b in batches])


@given(st.floats(1e-5, 0.1), st.floats(1e-6, 1e-2))
def test_overhead_and_time_per_sample_come_back(overhead, sample):
    found = line(overhead, sample)
    assert found.overhead_seconds.value == pytest.approx(overhead, rel=1e-3, abs=1e-7)
    assert found.sample_seconds.value == pytest.approx(sample, rel=1e-3)


def test_one_batch_or_a_free_batch_gives_no_line():
    assert fit_compute([ComputePoint(64, exact(0.01))]) is None
    assert fit_compute([ComputePoint(32, exact(0.02)), ComputePoint(64, exact(0.01))]) is None


def test_the_residual_is_what_the_parts_leave():
    parts = step_parts(Estimate(0.02, 0.019, 0.021, 30, 1, "", 0.95), 2, 32, line(1e-3, 1e-4), LINK, VOLUME, None)
    assert parts.communication_seconds == pytest.approx(2 * 2e-4 + 8e-3, rel=1e-3)
    assert parts.model_seconds == pytest.approx(1e-3 + 3.2e-3 + 8.4e-3, rel=1e-3)
    assert parts.residual_seconds == pytest.approx(0.02 - parts.model_seconds)
    assert parts.relative_residual == pytest.approx(parts.residual_seconds / 0.02)


def test_one_rank_needs_no_link_and_two_do():
    assert step_parts(exact(0.01), 1, 64, line(1e-3, 1e-4), None, (0, 0), None).communication_seconds == 0
    assert step_parts(exact(0.01), 2, 32, line(1e-3, 1e-4), None, VOLUME, None) is None


@given(st.floats(1e-4, 1e-2), st.floats(1e-5, 1e-3), st.floats(1e-3, 1.0))
def test_at_the_balance_batch_computing_takes_as_long_as_communication(overhead, sample, price):
    found = line(overhead, sample)
    batch = batch_at_balance(found, exact(price)).value
    assert found.at(batch) == pytest.approx(price, rel=1e-6, abs=1e-9)


def test_at_the_balance_rate_communication_takes_as_long_as_computing():
    found = line(1e-3, 1e-4)
    rate = rate_at_balance(found, 32, LINK, VOLUME)
    assert 2 * LINK.alpha_seconds.value + 8e6 / rate.value == pytest.approx(found.at(32))
    assert rate.low < rate.value < rate.high


def test_no_rate_balances_where_latency_alone_takes_longer():
    assert rate_at_balance(line(1e-6, 1e-6), 32, LINK, (1000.0, 8e6)) is None
    assert rate_at_balance(line(1e-3, 1e-4), 32, LINK, (0.0, 0.0)) is None
