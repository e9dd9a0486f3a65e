"""A backward pass is told to be a reducer's by the gradients it leaves, whatever address they come to lie at."""

import torch
from torch import nn

from scalewise.watch.reducer import Reducer


class Wrapped:
    """What is asked of a DDP module."""

    def __init__(self) -> None:
        self.module = nn.Linear(2, 1, bias=False)  # one gradient, so that the next one takes its place

    def _set_ddp_runtime_logging_sample_rate(self, rate: int) -> None:
        pass

    def _get_ddp_logging_data(self) -> dict[str, object]:
        return {"bucket_sizes": "12"}

    def backward(self) -> None:
        for parameter in self.module.parameters():
            parameter.grad = torch.zeros_like(parameter)


def test_a_new_gradient_at_the_address_of_the_one_before_is_new():
    ddp = Wrapped()
    reducer = Reducer(ddp)
    reused = 0
    for _ in range(200):
        ddp.backward()
        reducer.arm(alone=False)
        addresses = [id(parameter.grad) for parameter in ddp.module.parameters()]
        ddp.module.zero_grad()
        ddp.backward()
        reused += addresses == [id(parameter.grad) for parameter in ddp.module.parameters()]
        assert reducer.has_reduced(alone=False)
    assert reducer.passes == 200
    assert reused  # else this test would show nothing


def test_gradients_that_nobody_touched_are_not_new():
    ddp = Wrapped()
    reducer = Reducer(ddp)
    ddp.backward()
    reducer.arm(alone=False)
    assert not reducer.has_reduced(alone=False)
    ddp.module.weight.grad.add_(1.0)
    assert reducer.has_reduced(alone=False)
    assert not reducer.has_reduced(alone=False)  # not armed again


def test_first_gradients_are_new_and_none_at_all_are_not():
    ddp = Wrapped()
    reducer = Reducer(ddp)
    reducer.arm(alone=False)
    assert not reducer.has_reduced(alone=False)
    ddp.backward()
    assert reducer.has_reduced(alone=False)


def test_one_that_is_alone_is_not_asked_for_gradients():
    reducer = Reducer(ddp := Wrapped())
    reducer.arm(alone=True)
    assert reducer.has_reduced(alone=True)
    assert ddp.module.weight.grad is None
