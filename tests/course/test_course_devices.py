"""Tests of layers on devices: the map, the hand-overs, and gradients that do not know of them."""

import sys

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from scalewise.plan.scripts import course_folder
from scalewise.records.inspection import LOGICAL_ATTRIBUTE, LOGICAL_PREFIX


@pytest.fixture(scope="module")
def parts():
    """The classes of the scripts, imported as a student would."""
    sys.path.insert(0, str(course_folder()))
    try:
        import devices
        import homework3_model_parallel
        import practical6_ddp
        import practical8_model_parallel
    finally:
        sys.path.pop(0)
    return devices, practical6_ddp, practical8_model_parallel, homework3_model_parallel


class Moves(TorchDispatchMode):
    """Counts hand-overs as an observer from outside would."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "logical":
            self.seen.append((args[1], args[2], args[0].nbytes))
        return function(*args, **(kwargs or {}))


def step(model, x, y):
    with Moves() as moves:
        nn.functional.mse_loss(model(x), y).backward()
    return [parameter.grad for parameter in model.parameters()], moves.seen


def built(module, devices, dim, depth, count):
    torch.manual_seed(0)
    logical = [devices.LogicalDevice(index, torch.device("cpu")) for index in range(count)]
    model = module.LargeLinearModelMP(dim, depth, logical)
    x, y = torch.randn(2, 6, dim)
    return model, x.to(logical[0]), y.to(logical[-1])


@pytest.mark.parametrize(("depth", "count"), [(6, 1), (6, 2), (7, 3), (5, 5), (20, 5)])
def test_gradients_are_those_of_the_unsplit_model_bit_for_bit_and_moves_are_two_per_border(parts, depth, count):
    devices, plain, _, spread = parts
    model, x, y = built(spread, devices, 16, depth, count)
    gradients, moves = step(model, x, y)
    torch.manual_seed(0)
    whole = plain.LargeLinearModel(16, depth)
    whole_x, whole_y = torch.randn(2, 6, 16)
    expected, none = step(whole, whole_x, whole_y)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(gradients, expected, strict=True))
    assert none == [] and len(moves) == 2 * (count - 1)
    there = [(f"logical:{index}", f"logical:{index + 1}", x.nbytes) for index in range(count - 1)]
    assert moves == [*there, *((target, source, size) for source, target, size in reversed(there))]
    assert model.transfers == count - 1


def test_the_first_half_lies_on_the_first_device(parts):
    devices, _, halves, _ = parts
    for depth, first in [(6, 3), (7, 3), (2, 1)]:
        model, _, _ = built(halves, devices, 8, depth, 2)
        assert [str(device) for device in model.layer_devices] == ["logical:0"] * first + ["logical:1"] * (
            depth - first
        )


@pytest.mark.parametrize("depth", range(1, 25))
def test_layers_are_spread_evenly_and_in_order(parts, depth):
    devices, _, _, spread = parts
    for count in range(1, depth + 1):
        model, _, _ = built(spread, devices, 2, depth, count)
        names = [str(device) for device in model.layer_devices]
        sizes = [names.count(f"logical:{index}") for index in range(count)]
        assert max(sizes) - min(sizes) <= 1
        assert names == sorted(names, key=lambda name: int(name.split(":")[1]))


def test_weights_and_results_say_where_they_lie(parts):
    devices, _, _, spread = parts
    model, x, _ = built(spread, devices, 4, 2, 2)
    assert LOGICAL_PREFIX == "logical:"
    assert [getattr(parameter, LOGICAL_ATTRIBUTE) for parameter in model.parameters()] == ["logical:0"] * 2 + [
        "logical:1"
    ] * 2
    assert getattr(model(x), LOGICAL_ATTRIBUTE) == "logical:1"


def test_a_hand_over_is_a_copy_and_staying_is_not(parts):
    devices, *_ = parts
    here, there = (devices.LogicalDevice(index, torch.device("cpu")) for index in range(2))
    x = torch.randn(3).to(here)
    assert x.to(here) is x
    moved = x.to(there)
    assert moved.data_ptr() != x.data_ptr() and torch.equal(moved, x)


def test_memory_is_counted_on_each_device_and_nothing_twice(parts):
    devices, _, _, spread = parts
    dim, batch = 16, 6
    model, x, y = built(spread, devices, dim, 4, 2)
    step(model, x, y)
    logical = model.layer_devices[0], model.layer_devices[-1]
    held = devices.memory_per_device(model, logical, lambda: nn.functional.mse_loss(model(x), y))
    weights = 2 * (dim * dim + dim) * 4
    outputs = batch * dim * 4
    # Weights, as many gradients, and what comes in and what each layer makes; the last device also holds the targets.
    assert held == {"logical:0": 2 * weights + 3 * outputs, "logical:1": 2 * weights + 4 * outputs}


def test_data_parallel_gives_the_gradients_of_the_whole_batch(parts):
    devices, plain, *_ = parts
    torch.manual_seed(0)
    whole = plain.LargeLinearModel(16, 3).double()
    x, y = torch.randn(2, 12, 16, dtype=torch.float64)
    expected, _ = step(whole, x, y)
    expected = [gradient.clone() for gradient in expected]
    whole.zero_grad()
    logical = [devices.LogicalDevice(index, torch.device("cpu")) for index in range(3)]
    gradients, moves = step(devices.LogicalDataParallel(whole, logical), x.to(logical[0]), y.to(logical[0]))
    for ours, theirs in zip(gradients, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=1e-16)
    # To each other device: its part of the batch and all weights; back: their gradients, its output and that one's.
    assert len(moves) == 2 * (1 + 6 + 6 + 1 + 1)


def test_the_scripts_print_layers_transfers_and_memory(course):
    lines = course.run("homework3_model_parallel", DEPTH=5, DEVICES=2).stdout.splitlines()
    assert "transfers in one forward pass: 1" in lines
    assert any(line.startswith("logical:0: 3 layers (0, 1, 2), ") for line in lines)
    assert any(line.startswith("logical:1: 2 layers (3, 4), ") and line.endswith(" MB") for line in lines)


def test_accumulated_gradients_are_those_of_the_whole_batch(parts):
    _, plain, *_ = parts
    for dtype, bound in [(torch.float32, 1e-6), (torch.float64, 1e-14)]:
        torch.manual_seed(0)
        model = plain.LargeLinearModel(64, 2).to(dtype)
        x, y = torch.randn(2, 64, 64, dtype=dtype)
        nn.functional.mse_loss(model(x), y).backward()
        whole = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        model.zero_grad()
        for part_x, part_y in zip(x.chunk(8), y.chunk(8), strict=True):
            (nn.functional.mse_loss(model(part_x), part_y) / 8).backward()
        parts_ = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        assert (parts_ - whole).norm() <= bound * whole.norm()
