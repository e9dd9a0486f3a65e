"""Tests of growing memory: how fast, when it runs out, and that steady memory is left alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import make_run, quiet_sample
from scalewise.analysis.memory_growth import ALLOCATED, HEAP, PROCESS, RESERVED, WORKERS, memory_growth_of
from scalewise.analysis.memory_text import growth_lines
from scalewise.records.rows import LevelRow

MEBI = 2**20


def run_with(*levels: LevelRow, samples=(), gpus=0):
    run = make_run([0.01] * 40, samples=samples, machine={"gpus": gpus})
    return replace(run, ranks=(replace(run.ranks[0], levels=levels),))


def levels(sizes, **names) -> list[LevelRow]:
    """A reading every 10 steps; `names` says which figure the sizes are."""
    rows = [LevelRow(10 * index, 300 * MEBI, None, None, None) for index in range(len(sizes))]
    return [replace(row, **dict.fromkeys(names, int(size))) for row, size in zip(rows, sizes, strict=True)]


def growing(kind: str, per_step: float, count: int = 40) -> list[LevelRow]:
    return levels([300 * MEBI + per_step * 10 * index for index in range(count)], **{kind: True})


FIGURES = {PROCESS: "rss_bytes", HEAP: "heap_bytes", ALLOCATED: "cuda_allocated_bytes", RESERVED: "cuda_reserved_bytes"}


@pytest.mark.parametrize("kind", FIGURES)
def test_each_kind_of_memory_that_grows_is_told_with_its_pace(kind):
    (found,) = memory_growth_of(run_with(*growing(FIGURES[kind], MEBI), gpus=1))

    assert found.kind == kind and found.bytes_per_step.value == pytest.approx(MEBI, rel=1e-3)
    assert found.bytes_per_step.low <= MEBI <= found.bytes_per_step.high * (1 + 1e-9)


def test_it_runs_out_where_the_line_meets_the_capacity():
    (found,) = memory_growth_of(run_with(*growing("cuda_allocated_bytes", MEBI), gpus=1))

    assert found.capacity_bytes == 2**37
    assert found.runs_out_step == pytest.approx((2**37 - 300 * MEBI) / MEBI, rel=0.01)
    assert found.runs_out_earliest_step <= found.runs_out_step
    assert f"at about step {found.runs_out_step:,}" in growth_lines([found])[0]


def test_host_memory_is_shared_by_the_ranks():
    run = make_run([0.01] * 40, ranks=2)
    ranks = tuple(replace(rank, levels=tuple(growing("rss_bytes", MEBI))) for rank in run.ranks)
    found = memory_growth_of(replace(run, ranks=ranks))

    assert {one.capacity_bytes for one in found} == {2**33}
    assert len(growth_lines(found)) == 1, "the same kind is said once"


def test_worker_processes_are_told_apart_from_their_rank():
    samples = tuple(
        quiet_sample(rank_steps=(10 * index,), worker_bytes=(100 * MEBI + 5 * MEBI * index,)) for index in range(30)
    )
    (found,) = memory_growth_of(run_with(samples=samples))

    assert found.kind == WORKERS and found.bytes_per_step.value == pytest.approx(MEBI / 2)


def test_memory_that_fills_up_at_first_and_then_stays_does_not_grow():
    sizes = [*np.linspace(100, 300, 9) * MEBI, *[300 * MEBI] * 31]
    assert memory_growth_of(run_with(*levels(sizes, rss_bytes=True))) == ()


def test_too_few_readings_say_nothing():
    assert memory_growth_of(run_with(*growing("rss_bytes", MEBI, count=10))) == ()
    assert memory_growth_of(run_with()) == ()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_an_allocator_that_jitters_by_half_a_mebibyte_is_never_said_to_grow(seed):
    jitter = np.random.default_rng(seed).uniform(0, MEBI / 2, 40)
    assert memory_growth_of(run_with(*levels(300 * MEBI + jitter, rss_bytes=True))) == ()
