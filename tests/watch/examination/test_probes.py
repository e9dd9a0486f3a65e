"""One parameter tells what becomes of all gradients between backward and step."""

import pytest
import torch
from torch import nn

from scalewise.watch.examination.probes import Probes
from scalewise.watch.examination.tensors import any_value, ordinary, readable, values


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 1))


def backward(model, probes, optimizer):
    for probe in probes.all():
        probe.before(early=True, close=True)
    model(torch.ones(2, 8)).sum().backward()
    for probe in probes.all():
        probe.after(early=True, close=True)
    probes.choose([(0, optimizer)], early=True, empty=True)
    return probes.of(0)


def test_the_smallest_parameter_of_several_values_is_chosen(model):
    probe = backward(model, Probes(), torch.optim.SGD(model.parameters(), lr=0.1))
    assert probe.parameter is model[0].bias or probe.parameter is model[1].weight
    assert (probe.had, probe.touched, probe.zeroed) == (False, True, False)
    assert probe.gained > 0


def test_a_parameter_whose_gradient_is_noise_is_passed_over():
    quiet, loud = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(50))
    (quiet.sum() * 1e-9 + loud.sum()).backward()
    probes = Probes()
    probes.choose([(0, torch.optim.SGD([quiet, loud], lr=0.1))], early=True, empty=True)
    assert probes.of(0).parameter is loud


def test_the_ratio_is_what_was_done_to_the_gradient(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    probe = backward(model, Probes(), optimizer)
    assert probe.ratio(early=True) == pytest.approx(1.0)
    for parameter in model.parameters():
        parameter.grad /= 4
    assert probe.ratio(early=True) == pytest.approx(0.25)
    optimizer.zero_grad()
    assert probe.ratio(early=True) is None
    assert probe.holds(early=True) is False


def test_a_second_pass_finds_a_gradient_and_adds_to_it(model):
    probes, optimizer = Probes(), torch.optim.SGD(model.parameters(), lr=0.1)
    first = backward(model, probes, optimizer).gained
    probe = backward(model, probes, optimizer)
    assert probe.had is True
    assert probe.gained == pytest.approx(first)
    assert probes.reached() is probe
    assert probes.among(model.parameters()) is probe
    assert probes.among([]) is None


def test_a_probe_does_not_keep_its_parameter_alive():
    model = nn.Linear(4, 4)
    optimizer, probes = torch.optim.SGD(model.parameters(), lr=0.1), Probes()
    model(torch.ones(1, 4)).sum().backward()
    probes.choose([(0, optimizer)], early=True, empty=True)
    del model, optimizer
    assert probes.of(0).parameter is None
    assert probes.of(0).ratio(early=True) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_values_are_read_in_every_type(dtype):
    tensor = torch.tensor([[0.5, -1.5], [2.0, 3.25]], dtype=dtype).t()
    assert values(tensor).tolist() == [0.5, 2.0, -1.5, 3.25]
    assert any_value(tensor)
    assert not any_value(torch.tensor([0.0, -0.0], dtype=dtype))


def test_only_dense_tensors_with_memory_are_read():
    assert ordinary(torch.ones(2))
    assert not ordinary(torch.ones(2).to_sparse())
    assert not ordinary(3)
    assert not readable(torch.ones(2, device="meta"), early=True)
    assert torch.vmap(lambda one: one * int(not ordinary(one)))(torch.ones(2)).tolist() == [1.0, 1.0]
