"""A line gives itself back, shrugs off an outlier, and is refused where there is none."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import make_run
from scalewise.analysis.estimate import exact
from scalewise.analysis.fits import (
    SATURATED,
    ComputePoint,
    LinkFit,
    LinkPoint,
    NoLinkFit,
    fit_compute,
    fit_line,
    fit_link,
    link_points,
    saturation,
)

X = [1.0, 4.0, 64.0, 1e3, 1e5, 1e7]


@given(st.floats(1e-6, 1.0), st.floats(1e-10, 1e-3))
def test_a_line_gives_its_own_coefficients_back(intercept, slope):
    line = fit_line(X, [intercept + slope * x for x in X])
    assert line.intercept.value == pytest.approx(intercept, rel=1e-4)
    assert line.slope.value == pytest.approx(slope, rel=1e-4)
    assert max(map(abs, line.relative_residuals)) < 1e-4
    assert line.at(10.0) == pytest.approx(intercept + 10 * slope, rel=1e-4)


def test_one_odd_point_moves_the_line_little_and_shows_in_its_residual():
    y = [1.0 + 0.1 * x for x in range(1, 11)]
    y[4] *= 3
    line = fit_line(list(range(1, 11)), y)
    assert line.intercept.value == pytest.approx(1.0, rel=0.1)
    assert max(line.relative_residuals, key=abs) == pytest.approx(2.0, rel=0.1)
    assert line.typical_residual < 0.05


def test_the_interval_covers_the_truth_most_of_the_time():
    random = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        y = [(2e-4 + 1e-9 * x) * np.exp(0.1 * random.normal()) for x in X]
        found = fit_line(X, y).slope
        hits += found.low <= 1e-9 <= found.high
    assert hits >= 170


@pytest.mark.parametrize(("x", "y"), [([], []), ([1, 1], [1, 2]), ([1, 2], [1, 0]), ([1, 2], [1, float("nan")])])
def test_points_without_a_line_are_refused(x, y):
    assert fit_line(x, y) is None


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


def _run(calls, device="cpu", **changes):
    """One step per call: bytes, and the nanoseconds each of two ranks was blocked."""
    run = make_run([0.01] * len(calls), ranks=2, device=device, **changes)
    ranks = []
    for index, rank in enumerate(run.ranks):
        steps = [
            replace(row, collectives={"all_reduce": (1, size)}, collective_ns=times[index])
            for row, (size, *times) in zip(rank.steps, calls, strict=True)
        ]
        ranks.append(replace(rank, steps=tuple(steps)))
    return replace(run, ranks=tuple(ranks))


def test_the_time_is_that_of_the_rank_that_came_last_and_the_first_of_each_size_is_left_out():
    calls = [(4, 900, 900), (1024, 999, 999), (4, 100, 250), (1024, 700, 300), (4, 120, 110)]

    assert link_points(_run(calls)) == (
        LinkPoint(4, pytest.approx(100e-9), 2),
        LinkPoint(1024, pytest.approx(300e-9), 2),
        LinkPoint(4, pytest.approx(110e-9), 2),
    )


def test_other_kinds_are_points_where_they_are_asked_for_by_the_size_of_the_whole_message():
    run = _run([(512, 1, 1), (512, 100, 300)])
    for kind, whole in (("all_gather", 512), ("reduce_scatter", 1024)):
        ranks = tuple(
            replace(rank, steps=tuple(replace(row, collectives={kind: (1, 512)}) for row in rank.steps))
            for rank in run.ranks
        )
        other = replace(run, ranks=ranks)
        assert link_points(other) == ()
        assert link_points(other, (kind,)) == (LinkPoint(whole, pytest.approx(100e-9), 2, kind),)


def test_on_a_gpu_the_call_says_nothing_and_the_step_does():
    calls = [(4, 1, 1)] * 3
    (first, second) = link_points(_run(calls, device="cuda"))

    assert first.seconds == second.seconds == pytest.approx(0.01 / 8)  # what the phases leave of the step


def test_on_a_gpu_steps_without_phases_take_their_overhead_from_those_with():
    run = _run([(4, 1, 1)] * 4, device="cuda")
    bare = tuple(
        replace(rank, steps=(*rank.steps[:3], replace(rank.steps[3], rest_ns=None, step_ns=20_000_000)))
        for rank in run.ranks
    )

    last = link_points(replace(run, ranks=bare))[-1]
    assert last.seconds == pytest.approx(0.02 - 0.01 * 7 / 8)


def test_steps_with_several_collectives_or_of_one_rank_are_no_points():
    run = _run([(4, 1, 1)] * 3)
    two = tuple(
        replace(rank, steps=tuple(replace(row, collectives={"all_reduce": (2, 8)}) for row in rank.steps))
        for rank in run.ranks
    )
    assert link_points(replace(run, ranks=two)) == ()
    assert link_points(make_run([0.01] * 3)) == ()
    assert link_points(make_run([0.01] * 3, ranks=2)) == ()


SIZES = [4.0 * 8**power for power in range(9)]


def points(alpha, rate, sizes=SIZES, repeats=3):
    return [(size, alpha + size / rate) for size in sizes for _ in range(repeats)]


@given(st.floats(1e-5, 1e-2), st.floats(1e8, 1e11))
def test_a_link_gives_its_own_latency_and_rate_back(alpha, rate):
    fit = fit_link(points(alpha, rate), 2)
    if isinstance(fit, NoLinkFit):  # latency hides the rate of the fastest link with the slowest start
        assert 64 * 2**20 / rate < 0.02 * alpha
        return
    assert fit.alpha_seconds.value == pytest.approx(alpha, rel=1e-3)
    assert fit.bytes_per_second.value == pytest.approx(rate, rel=1e-2)
    assert fit.predicted(2, 1e6).value == pytest.approx(2 * alpha + 1e6 / rate, rel=1e-2)


def test_repeats_that_were_held_up_do_not_count():
    held_up = [(size, seconds + 4e-3) for size, seconds in points(1e-4, 1e9)]
    fit = fit_link([*points(1e-4, 1e9, repeats=1), *held_up], 2)
    assert isinstance(fit, LinkFit)
    assert fit.alpha_seconds.value == pytest.approx(1e-4, rel=1e-3)


def test_too_few_sizes_are_refused_with_their_number():
    assert "2 message sizes from 4 B to 32 B" in fit_link(points(1e-4, 1e9, SIZES[:2]), 2).reason
    assert "0 message sizes" in fit_link([], 4).reason


def test_points_that_no_line_describes_are_refused_with_the_miss():
    wild = [(size, 1e-3 if index % 2 else 1.0) for index, size in enumerate(SIZES)]
    found = fit_link(wild, 2)
    assert isinstance(found, NoLinkFit)
    assert "%" in found.reason or "not positive" in found.reason


def test_a_link_that_is_faster_for_more_bytes_is_refused():
    found = fit_link([(size, 1.0 / (1 + size)) for size in SIZES], 2)
    assert isinstance(found, NoLinkFit)
