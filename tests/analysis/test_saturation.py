"""Throughput saturates at the batch that its own line says, and three batches are the least to tell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewise.analysis.propagate import exact
from scalewise.analysis.saturation import SATURATED, saturation

BATCHES = (32, 64, 128, 256)


@given(st.floats(1e-4, 1e-1), st.floats(1e-3, 1e-2))
def test_at_the_saturation_batch_the_named_share_of_the_limit_is_reached(fixed, sample):
    found = saturation([(batch, exact(fixed + sample * batch)) for batch in BATCHES])
    assert found.limit_per_second.value == pytest.approx(1 / sample, rel=1e-2)
    assert found.share(found.batch.value) == pytest.approx(SATURATED, rel=1e-6)
    assert found.throughput(64) == pytest.approx(64 / (fixed + 64 * sample), rel=1e-3)


def test_two_batches_or_a_step_that_does_not_grow_say_nothing():
    assert saturation([(32, exact(0.01)), (64, exact(0.02))]) is None
    assert saturation([(batch, exact(0.01)) for batch in BATCHES]) is None
