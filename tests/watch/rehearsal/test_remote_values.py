"""What came from other ranks is followed through what is made of it, and looks like a plain tensor to the script."""

import copy
import io

import numpy as np
import pytest
import torch

from scalewise.watch.rehearsal import remote_values as module
from scalewise.watch.rehearsal.remote_values import MOST_ELEMENTS, ReadTracker, RemoteTensor


class Recorder:
    """Keeps the rows."""

    def __init__(self):
        self.journal, self.rows = self, []

    def row(self, row):
        self.rows.append(row)

    def flush(self):
        pass


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(RemoteTensor, "tell", RemoteTensor.tell)
    monkeypatch.setattr(module.step_hooks, "before", lambda guard, act, first: None)
    monkeypatch.setattr(module, "_asked_by_script", lambda: True)
    return Recorder()


@pytest.fixture
def ears(recorder):
    return ReadTracker(recorder)


@pytest.fixture
def told(recorder):
    return lambda: [row.call for row in recorder.rows]


def heard(ears, *numbers, kind="all_reduce"):
    tensor = torch.tensor(numbers[0] if len(numbers) == 1 else numbers)
    ears.hear(kind, tensor)
    return tensor


@pytest.mark.parametrize(
    ("look", "call"),
    [
        (lambda one: one.item(), "item"),
        (lambda one: float(one), "float"),
        (lambda one: one > 2, None),
        (lambda one: bool(one > 2), "bool"),
        (lambda one: f"{one:.2f}", "format"),
        (lambda one: f"{one}", "format"),
        (lambda one: repr(one), "repr"),
        (lambda one: one.numpy(), "numpy"),
        (lambda one: np.asarray(one), "array"),
        (lambda one: torch.stack([one, one]).tolist(), "tolist"),
        (lambda one: (one / 2 + 1).sqrt().cpu().detach().clone().item(), "item"),
        (lambda one: one.add_(1).item(), "item"),
        (lambda one: max([torch.tensor(0.0), one]).item(), "bool"),
        (lambda one: one * torch.ones(100), None),
        (lambda one: one.shape, None),
    ],
)
def test_looks_are_told_of_and_give_what_a_plain_tensor_gives(ears, told, look, call):
    found, expected = look(heard(ears, 3.0)), look(torch.tensor(3.0))
    assert told() == ([] if call is None else [call])
    if isinstance(expected, torch.Tensor):
        assert torch.equal(module._plain(found), expected)
    else:
        assert found == expected


def test_what_is_large_or_needs_a_gradient_is_not_followed(ears):
    large = torch.zeros(MOST_ELEMENTS + 1)
    needy = torch.zeros(1, requires_grad=True)
    for one in (large, needy):
        ears.hear("all_reduce", one)
        assert type(one) is torch.Tensor
    assert type(heard(ears, 1.0) * large) is torch.Tensor


def test_a_copy_and_what_is_saved_are_as_of_a_plain_tensor(ears, told):
    one = heard(ears, 1.0, 2.0)
    assert torch.equal(module._plain(copy.deepcopy({"best": one})["best"]), torch.tensor([1.0, 2.0]))
    file = io.BytesIO()
    torch.save({"best": one}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)["best"]
    assert type(loaded) is torch.Tensor
    assert loaded.tolist() == [1.0, 2.0]
    assert told() == []


def test_a_compiled_function_takes_it(ears):
    with torch.compiler.set_stance("force_eager"):
        assert float(torch.compile(lambda one: one * 2, backend="eager")(heard(ears, 3.0))) == 6.0


def test_gradients_of_few_elements_are_gradients(ears, told):
    layer = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 2)).sum().backward()
    ears.hear("all_reduce", layer.bias.grad)
    assert type(layer.bias.grad) is RemoteTensor  # nobody knows yet
    ears._learn(optimizer, (), {})
    assert type(layer.bias.grad) is torch.Tensor
    ears.hear("all_reduce", layer.bias.grad)
    assert type(layer.bias.grad) is torch.Tensor


def test_a_line_is_told_of_once_with_its_text(ears, recorder):
    for _ in range(3):
        assert heard(ears, 3.0, kind="broadcast").item() == 3.0
    (row,) = recorder.rows
    assert (row.collective, row.text) == ("broadcast", 'assert heard(ears, 3.0, kind="broadcast").item() == 3.0')
