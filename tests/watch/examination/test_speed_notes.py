"""What an examined rank writes of speed: graphs, switches, tidying up, compilations, copies; by small pieces."""

import contextlib
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.device_traffic import DeviceCopies, HostReads
from scalewise.watch.examination.device_work import device_work
from scalewise.watch.examination.graph import graph_row
from scalewise.watch.examination.torch_modes import Settings, _guard
from scalewise.watch.seams import seam

LOOP = SimpleNamespace(windows=2)


def row_of(loss):
    return graph_row(LOOP, [loss])


def heads(length=16, width=8):
    return (torch.randn(2, 4, length, width, requires_grad=True) for _ in range(3))


def test_attention_by_hand_is_seen_in_the_graph_whatever_stands_between():
    q, k, v = heads()
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(8)
    scores = scores.masked_fill(torch.ones(16, 16).tril() == 0, -math.inf)
    weights = nn.functional.dropout(torch.softmax(scores, dim=-1), 0.1)
    row = row_of((weights @ v).mean())
    assert [(one.shape, one.dtype, one.times) for one in row.attention] == [((2, 4, 16, 16), "float32", 1)]
    assert row.matmuls == {"float32": 2} and row.step == 3 and not row.fused_attention


def test_attention_by_einsum_and_of_a_module_that_returns_weights_is_seen():
    q, k, v = heads()
    weights = torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(dim=-1)
    assert row_of(torch.einsum("bhqk,bhkd->bhqd", weights, v).mean()).attention
    x = torch.randn(2, 16, 32)
    module = nn.MultiheadAttention(32, 4, batch_first=True)
    assert row_of(module(x, x, x)[0].mean()).attention
    assert not row_of(module(x, x, x, need_weights=False)[0].mean()).attention


def test_a_classifier_is_no_attention():
    x, weight = torch.randn(8, 16), torch.randn(16, 4, requires_grad=True)
    assert not row_of(torch.softmax(x @ weight, dim=-1).square().mean()).attention


def test_fused_attention_is_counted_as_that():
    q, k, v = heads()
    row = row_of(nn.functional.scaled_dot_product_attention(q, k, v).mean())
    assert row.fused_attention == 1 and not row.attention


def test_shapes_that_change_are_seen_to_change():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    same = [row_of(model(torch.randn(2, 3, 8, 8)).mean()) for _ in range(2)]
    other = row_of(model(torch.randn(5, 3, 8, 8)).mean())
    assert same[0].convolutions == 1 and same[0].shapes == same[1].shapes != other.shapes


@pytest.mark.parametrize(
    ("reason", "guard"),
    [
        ("0/1: tensor 'x' size mismatch at index 0. expected 8, actual 9", "tensor 'x' size mismatch at index 0. expected 8, actual 9"),  # noqa: E501
        ("2/0: self.calls == 0      # self.calls += 1  # train.py:18 in forward", "self.calls == 0"),
        ("", "a guard that has no name"),
    ],
)  # fmt: skip
def test_a_guard_is_told_without_numbers_and_comments(reason, guard):
    assert _guard(reason) == guard


class Page:
    """Stands for a notebook."""

    def __init__(self, of_user=True):
        self.on = True
        self.notes, self.rows = [], []
        self.places = SimpleNamespace(of_user=lambda code: of_user, here=lambda: 7)

    def note(self, *values):
        self.notes.append(values)

    def row(self, row):
        self.rows.append(row)

    def broke(self, where, error):
        raise error


class OnDevice(torch.Tensor):
    """Stands for a tensor of a GPU."""


def copied(page, monkeypatch):
    copies = DeviceCopies(page, lambda tensor: isinstance(tensor, OnDevice), real=False)
    move = lambda tensor, *args, **kwargs: tensor.detach().clone().as_subclass(OnDevice)  # noqa: E731
    monkeypatch.setattr(torch.Tensor, "to", move)
    seam(torch.Tensor, "to").during(page, copies.noted("to"))
    return torch.Tensor.to


def test_a_tensor_that_is_copied_again_unchanged_is_counted(monkeypatch):
    page = Page()
    to = copied(page, monkeypatch)
    mask = torch.ones(4, 4)
    for _ in range(3):
        to(mask, "cuda")
    mask.mul_(2)
    to(mask, "cuda")
    to(mask[:2], "cuda")
    assert [note[-1] for note in page.notes] == [0, 1, 2, 0, 0]
    assert page.notes[0][:3] == ("copy", "to", 64)


def test_new_tensors_in_the_same_memory_are_not_the_same(monkeypatch):
    page = Page()
    to = copied(page, monkeypatch)
    for _ in range(50):
        to(torch.ones(1000), "cuda")
    assert {note[-1] for note in page.notes} == {0}


def test_what_stays_where_it_is_is_no_copy(monkeypatch):
    page = Page()
    to = copied(page, monkeypatch)
    to(torch.ones(4).as_subclass(OnDevice), "cuda")
    assert not page.notes


def test_a_library_that_reads_is_named(monkeypatch):
    page = Page(of_user=False)
    monkeypatch.setattr(torch.Tensor, "__repr__", torch.Tensor.__repr__)
    seam(torch.Tensor, "__repr__").around(HostReads(page, lambda tensor: True).noted("__repr__"))
    assert repr(torch.ones(1)) == "tensor([1.])"
    (note,) = page.notes
    assert note[:2] == ("host_read", "repr, indirect") and note[-1] == __name__


def test_switches_are_written_when_they_change():
    page = Page()
    settings = Settings(SimpleNamespace(notebook=page, windows=0))
    loss = torch.ones(())
    with contextlib.ExitStack() as stack:
        settings.look([loss])
        settings.look([loss])
        settings.anomaly_place = 3
        with torch.autograd.set_detect_anomaly(True):
            settings.look([loss])
        settings.look([loss])
        stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        torch.set_float32_matmul_precision("high")
        settings.look([loss])
    assert [(row.anomaly, row.anomaly_place) for row in page.rows[:3]] == [
        (False, NOWHERE),
        (True, 3),
        (False, NOWHERE),
    ]
    assert page.rows[-1].matmul_precision == "high" and len(page.rows) == 4
    assert page.rows[0].device == "" and page.rows[0].capability == ()


class Event:
    """One record of a profiler."""

    def __init__(self, name, begin, lasted, cuda=True, annotation=False):
        kinds = torch._C._autograd.DeviceType
        self._values = (name, begin, lasted, kinds.CUDA if cuda else kinds.CPU, annotation)

    def name(self):
        return self._values[0]

    def start_ns(self):
        return self._values[1]

    def duration_ns(self):
        return self._values[2]

    def device_type(self):
        return self._values[3]

    def is_user_annotation(self):
        return self._values[4]


def test_overlapping_kernels_are_busy_once_and_annotations_are_no_work():
    events = [
        Event("gemm", 0, 100),
        Event("gemm", 50, 100),
        Event("add", 400, 10),
        Event("Memcpy HtoD (Pageable -> Device)", 140, 30),
        Event("Optimizer.step#SGD.step", 0, 1000, annotation=True),
        Event("Optimizer.step#SGD.step", 300, 100, cuda=False),
        Event("cudaLaunchKernel", 350, 5, cuda=False),
        Event("cudaLaunchKernel", 10, 5, cuda=False),
    ]
    row = device_work(events, step=33, steps=2)
    assert (row.kernels, row.busy_ns, row.kernel_ns, row.span_ns) == (3, 180, 210, 410)
    assert row.optimizer_kernels == 1 and row.copies == {"HtoD (Pageable -> Device)": (1, 30)}
    assert row.slowest == {"gemm": (2, 200), "add": (1, 10)}
