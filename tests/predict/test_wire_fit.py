"""A wire fitted to all-reduces describes them, foresees other numbers of ranks, and says how badly where it cannot."""

import numpy as np
import pytest
from a100_all_reduces import MEBIBYTES, MICROSECONDS
from hypothesis import given
from hypothesis import strategies as st

from scalewise.predict.collective_times import all_reduce
from scalewise.predict.link import Link, Wire
from scalewise.predict.wire_fit import MeasuredCollective, NoWireFit, WireFit, fit_wire

SIZES = tuple(4.0**power for power in range(5, 15))


def measured(gpus: int) -> list[MeasuredCollective]:
    times = MICROSECONDS[gpus]
    return [MeasuredCollective(gpus, size * 2**20, time * 1e-6) for size, time in zip(MEBIBYTES, times, strict=True)]


def made(wire: Wire, *ranks: int, noise: float = 0.0) -> list[MeasuredCollective]:
    """Points of a ring over that wire."""
    random = np.random.default_rng(0)
    points = []
    for count in ranks:
        for size in SIZES:
            time = wire.time(2 * (count - 1), 2 * size * (count - 1) / count, size)
            points.append(MeasuredCollective(count, size, time * float(np.exp(noise * random.standard_normal()))))
    return points


def test_two_and_four_gpus_are_described_within_two_percent():
    fit = fit_wire([*measured(2), *measured(4)])
    assert isinstance(fit, WireFit)
    assert fit.mean_error < 0.02
    assert fit.wire.bytes_per_second == pytest.approx(300e9, rel=0.05), "NVLink 3 carries 300 GB/s each way"
    assert not fit.guesses


@pytest.mark.parametrize("gpus", [3, 8])
def test_other_gpu_counts_of_that_node_are_foreseen(gpus):
    fit = fit_wire([*measured(2), *measured(4)])
    assert isinstance(fit, WireFit)
    link = Link("node", fit.wire)
    errors = [abs(all_reduce(link, one.size_bytes, gpus) / one.seconds - 1) for one in measured(gpus)]
    assert np.mean(errors) < 0.025


wires = st.builds(
    Wire,
    start_seconds=st.floats(1e-5, 1e-3),
    hop_seconds=st.floats(1e-6, 1e-4),
    bytes_per_second=st.floats(1e8, 1e12),
    handled_seconds_per_byte=st.floats(1e-12, 1e-10),
)


@given(wires)
def test_exact_points_give_their_wire_back(wire):
    fit = fit_wire(made(wire, 2, 4, 8))
    assert isinstance(fit, WireFit)
    assert fit.mean_error < 1e-6


def test_one_number_of_ranks_is_enough_for_that_number_and_the_rest_is_called_a_guess():
    wire = Wire(2e-4, 0.0, 1e9)
    fit = fit_wire(made(wire, 2, noise=0.05))
    assert isinstance(fit, WireFit)
    assert fit.wire.bytes_per_second == pytest.approx(1e9, rel=0.1)
    assert "2 ranks only" in fit.guesses[0]


def test_where_ranks_lie_on_no_common_wire_that_of_the_most_is_taken_and_known_badly():
    ring_of_more_is_faster = [*made(Wire(2e-5, 0.0, 22e9), 2), *made(Wire(2e-5, 0.0, 85e9), 4)]
    fit = fit_wire(ring_of_more_is_faster)
    assert isinstance(fit, WireFit)
    assert fit.wire.bytes_per_second == pytest.approx(85e9, rel=0.05)
    assert fit.spread > 0.5
    assert "2, 4 ranks" in fit.guesses[0]
    straight = fit_wire([*made(Wire(2e-5, 0.0, 85e9), 2), *made(Wire(2e-5, 0.0, 85e9), 4)])
    assert isinstance(straight, WireFit)
    assert straight.spread < 0.01


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ([], "0 message sizes"),
        (
            [MeasuredCollective(2, 2.0**power, 1e-3) for power in range(10, 13)],
            "3 message sizes from 1.00 KiB to 4.00 KiB",
        ),
        (
            [MeasuredCollective(2, 4.0**power, 1e-3 / power) for power in range(5, 15)],
            "larger messages did not take longer",
        ),
        (
            [MeasuredCollective(2, 4.0**power, 1e-3 * 9.0 ** (power % 2) * 2**power) for power in range(5, 15)],
            "miss the model by",
        ),
    ],
)
def test_points_that_tell_nothing_are_refused_with_the_reason(points, reason):
    fit = fit_wire(points)
    assert isinstance(fit, NoWireFit)
    assert reason in fit.reason
