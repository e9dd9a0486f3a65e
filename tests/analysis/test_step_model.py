"""The line of computing is found again, and refused where there is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.analysis.propagate import exact
from scalewise.analysis.step_model import ComputePoint, fit_compute


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
