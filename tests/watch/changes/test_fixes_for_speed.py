"""Fixes that spare time: each does what its fix would do and changes no result."""

import functools
import json
import math

import pytest
import torch
from torch import nn

from scalewise.records.examination import SettingsRow
from scalewise.records.load import read_rows
from scalewise.records.notes import CompileNote, HousekeepingNote
from scalewise.records.rows import EndRow
from scalewise.records.spec import Change, Examined
from scalewise.watch.changes import fused_attention, fused_optimizer
from scalewise.watch.changes.fused_attention import Deferred, _product


@pytest.fixture(scope="module")
def plain(runner):
    return runner.watched("left_on.py", kind=Examined())


def mended(runner, change):
    ran = runner.watched("left_on.py", changes=(Change(change),))
    assert set(ran.codes) == {0}, ran.stderr
    (end,) = [row for row in ran.rows(0).rows if isinstance(row, EndRow)]
    return json.loads(ran.stdout[0]), end.changes_applied.get(change, 0)


def test_what_was_left_on_is_noted_and_changes_nothing(runner, plain):
    raw = runner.raw("left_on.py")
    assert (plain.stdout, plain.stderr) == (raw.stdout, raw.stderr)
    found = read_rows(plain.out.examination(0))
    assert [row.anomaly for row in found.rows if isinstance(row, SettingsRow)] == [True]
    assert sum(isinstance(note, HousekeepingNote) for note in found.notes) == 6
    guards = [note.reason for note in found.notes if isinstance(note, CompileNote)]
    assert guards[0] == "" and len(guards) == 6 and all("size mismatch" in guard for guard in guards[1:])


def test_debugging_is_switched_off(runner, plain):
    said, applied = mended(runner, "debugging_off")
    assert json.loads(plain.stdout[0])["anomalies"] == 6
    assert said["anomalies"] == 0 and applied == 7


def test_garbage_is_left_to_python(runner, plain):
    said, applied = mended(runner, "no_housekeeping")
    before = json.loads(plain.stdout[0])
    assert said["collected"] <= before["collected"] - 6 and applied == 6
    assert said["loss"] == before["loss"]


def test_one_compilation_does_for_all_sizes(runner, plain):
    said, applied = mended(runner, "dynamic_shapes")
    before = json.loads(plain.stdout[0])
    assert before["graphs"] == 6 and said["graphs"] == 1 and applied == 1
    assert said["loss"] == pytest.approx(before["loss"])


def test_parameters_are_found_in_every_form_that_an_optimizer_takes():
    a, b, c = (nn.Parameter(torch.ones(1)) for _ in range(3))
    groups = [{"params": (one for one in (a, b)), "lr": 0.1}, {"params": c}]
    assert [id(one) for one in fused_optimizer._tensors(groups)] == [id(a), id(b), id(c)]
    assert groups[0]["params"] == [a, b], "a generator can be read once"
    assert fused_optimizer._tensors([("weight", a), ("bias", b)]) == [a, b]


@pytest.fixture
def deferring(monkeypatch):
    """The product of queries and keys is put off, as on a GPU; gives how often attention was fused."""
    fused = []
    long = lambda left, right: left.dim() == right.dim() and min(left.shape[-2], right.shape[-1]) >= 32  # noqa: E731
    monkeypatch.setattr(fused_attention, "_may_be_scores", long)
    monkeypatch.setattr(fused_attention, "_causal", {})
    monkeypatch.setattr(Deferred, "applied", staticmethod(lambda: fused.append(1)))
    return functools.partial(_product, torch.matmul), fused


def heads():
    torch.manual_seed(0)
    return [torch.randn(2, 4, 64, 16, requires_grad=True) for _ in range(3)]


def by_hand(product, q, k, v, mask, in_place=False):
    scores = product(q, k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    length = scores.size(-2)
    if in_place:
        scores.masked_fill_(mask[:length, :length] == 0, -math.inf)
    else:
        scores = scores.masked_fill(mask[:length, :length] == 0, -math.inf)
    return torch.matmul(nn.functional.dropout(nn.functional.softmax(scores, dim=-1), 0.0), v)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("mask", [torch.ones(64, 64).tril(), (torch.arange(64) % 7 != 3).float().expand(64, 64)])
def test_attention_by_hand_is_fused_with_the_same_result_and_gradients(deferring, mask, in_place):
    product, fused = deferring
    q, k, v = heads()
    expected = by_hand(torch.matmul, q, k, v, mask)
    found = by_hand(product, q, k, v, mask, in_place)
    assert type(found) is torch.Tensor and fused == [1]
    torch.testing.assert_close(found, expected)
    assert len(fused_attention._causal) == 1, "whether a mask is causal is asked once for a line"
    for one, other in zip(*(torch.autograd.grad(y.square().sum(), (q, k, v)) for y in (found, expected)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_scores_that_are_read_are_computed(deferring):
    product, fused = deferring
    q, k, _ = heads()
    scores = product(q, k.transpose(-2, -1))
    assert isinstance(scores, Deferred) and scores.shape == (2, 4, 64, 64)
    torch.testing.assert_close(scores + 1, q @ k.transpose(-2, -1) + 1)
    torch.testing.assert_close((scores * 2).softmax(dim=0), (q @ k.transpose(-2, -1) * 2).softmax(dim=0))
    weights = (scores / 4).softmax(dim=-1)
    torch.testing.assert_close(weights.mean(dim=1), (q @ k.transpose(-2, -1) / 4).softmax(dim=-1).mean(dim=1))
    assert not fused


def test_scores_that_would_be_changed_by_an_unknown_way_are_refused(deferring):
    product, _ = deferring
    q, k, _ = heads()
    with pytest.raises(NotImplementedError, match="clamp_"):
        product(q, k.transpose(-2, -1)).clamp_(min=0)
