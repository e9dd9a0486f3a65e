"""Memory by purpose: parts and rest are the peak, and a change names its largest part."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import make_run, quiet_sample
from inspection_factory import make_inspection, make_parts
from scalewise.analysis.memory_use import (
    ALLOCATED,
    HEAP,
    PROCESS,
    RESERVED,
    WORKERS,
    account_lines,
    growth_lines,
    memory_accounts_of,
    memory_change,
    memory_growth_of,
    memory_parts,
)
from scalewise.records.inspection import MemoryByLineRow, MemoryPartsRow
from scalewise.records.rows import LevelRow
from scalewise.records.spec import Inspected


def test_parts_and_rest_are_the_peak():
    found = memory_parts(make_inspection(memory=make_parts(), peak_bytes=15000))
    assert found is not None
    assert (sum(found.parts.values()), found.rest_bytes) == (13000, 2000)


def test_without_a_peak_nothing_is_said_about_a_rest():
    found = memory_parts(make_inspection(memory=make_parts()))
    assert found is not None and found.rest_bytes is None


def test_a_run_that_was_not_inspected_has_no_parts():
    assert memory_parts(None) is None
    assert memory_parts(make_inspection()) is None


def test_parts_at_the_peak_leave_nothing_over_and_name_what_is_no_tensor():
    at_peak = {"weights": 4000, "gradients": 4000, "buckets": 4000, "other": 500}
    row = replace(make_parts(half_copy=2000), peak_bytes=12500, at_peak=at_peak)
    found = memory_parts(make_inspection(memory=row, peak_bytes=80000))
    assert found is not None and found.at_peak
    assert (found.peak_bytes, found.rest_bytes, found.outside_bytes) == (12500, 0, 67500)
    assert (found.parts["half-precision copies"], found.most["half-precision copies"]) == (0, 2000)
    assert found.parts["work in progress"] == 500


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**7), st.integers(0, 10**7))
def test_the_change_of_the_peak_is_the_sum_of_its_parts(activations, halves, peak_a, peak_b):
    a = memory_parts(make_inspection(memory=make_parts(activation=activations), peak_bytes=peak_a))
    b = memory_parts(make_inspection(memory=make_parts(half_copy=halves), peak_bytes=peak_b))
    assert a is not None and b is not None
    change = memory_change(a, b)
    assert change.rest_bytes is not None
    assert sum(change.parts.values()) + change.rest_bytes == peak_b - peak_a


def test_the_part_that_changed_most_is_named():
    a = memory_parts(make_inspection(memory=make_parts()))
    b = memory_parts(make_inspection(memory=make_parts(activation=500, half_copy=2000)))
    assert a is not None and b is not None
    assert memory_change(a, b).largest == "half-precision copies"
    assert memory_change(a, a).largest == ""


MEBI = 2**20
PARTS = MemoryPartsRow(
    step=2,
    weight_bytes=10 * MEBI,
    gradient_bytes=10 * MEBI,
    optimizer_bytes=20 * MEBI,
    activation_bytes=64 * MEBI,
    half_copy_bytes=0,
    bucket_bytes=0,
    peak_bytes=110 * MEBI,
    at_peak={"weights": 10 * MEBI, "optimizer": 20 * MEBI, "activations": 80 * MEBI},
)
BY_LINE = (
    MemoryByLineRow(2, "activations", 60 * MEBI, "/home/me/train.py", 12, "x = self.block(x)"),
    MemoryByLineRow(2, "activations", 20 * MEBI, "/home/me/train.py", 13, "x = x.exp()"),
    MemoryByLineRow(2, "weights", 10 * MEBI, "", 0),
)


def inspected(*rows, **changes):
    run = make_run([0.01] * 4, kind=Inspected(), samples_in_all=64, **changes)
    return replace(run, ranks=(replace(run.ranks[0], inspection=rows),))


def test_activations_grow_with_the_batch_and_the_rest_stays():
    (account,) = memory_accounts_of([inspected(PARTS, *BY_LINE)])

    assert account.samples == 64 and account.capacity_bytes == 2**34
    assert account.line.bytes_per_sample == MEBI
    assert account.largest_batch == int((0.95 * 2**34 - 40 * MEBI) / MEBI)


def test_a_gpu_bounds_the_batch_of_its_rank():
    (account,) = memory_accounts_of([inspected(PARTS, device="cuda", machine={"gpus": 1})])
    assert account.capacity_bytes == 2**37 and account.largest_batch == int((0.95 * 2**37 - 40 * MEBI) / MEBI)
    (account,) = memory_accounts_of([inspected(PARTS, device="cuda")])
    assert account.capacity_bytes is None and account.largest_batch is None
    assert any("not known" in line for line in account_lines([account]))


def test_the_lines_that_made_the_peak_are_named_largest_first():
    text = " ".join(account_lines(memory_accounts_of([inspected(PARTS, *BY_LINE)])))

    assert "110 MiB of tensors at the peak: activations 80.0 MiB, optimizer state 20.0 MiB" in text
    assert text.index("train.py:12 `x = self.block(x)`") < text.index("train.py:13")
    assert "predicted from one batch of 64 samples" in text
    assert "/home/me" not in text


def test_without_samples_no_largest_batch_is_claimed():
    run = inspected(PARTS)
    steps = tuple(replace(step, samples=None) for step in run.ranks[0].steps)
    (account,) = memory_accounts_of([replace(run, ranks=(replace(run.ranks[0], steps=steps),))])

    assert account.largest_batch is None
    assert "what a sample needs was not seen" in " ".join(account_lines([account]))


@pytest.mark.parametrize("rows", [(), (BY_LINE[0],)])
def test_a_run_that_did_not_see_memory_has_no_account(rows):
    assert memory_accounts_of([inspected(*rows)]) == ()


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
