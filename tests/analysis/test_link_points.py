"""Single all-reduces as points: the rank that waited for nobody, without warm-up."""

from dataclasses import replace

import pytest

from factories import make_run
from scalewise.analysis.link_points import LinkPoint, link_points


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
