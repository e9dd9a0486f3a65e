"""Tests of what a peak consists of and of the largest batch that fits."""

from dataclasses import replace

import pytest

from factories import make_run
from scalewise.analysis.memory_account import memory_accounts_of
from scalewise.analysis.memory_text import account_lines
from scalewise.records.inspection import MemoryByLineRow, MemoryPartsRow
from scalewise.records.spec import Inspected

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
