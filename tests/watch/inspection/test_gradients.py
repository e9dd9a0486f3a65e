"""Gradients in four numbers: exact counts, and a norm and a projection that tell equal from different."""

import math

import pytest
import torch

from scalewise.watch.inspection.gradients import gradient_row


def _with(*gradients):
    parameters = [torch.zeros(gradient.shape, requires_grad=True) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    return parameters


def test_zeros_and_what_is_not_finite_are_counted_exactly():
    row = gradient_row(3, _with(torch.tensor([0.0, 3.0, math.inf]), torch.tensor([[math.nan, -4.0]])), 1.0)

    assert row is not None
    assert (row.step, row.elements, row.zeros, row.non_finite, row.norm) == (3, 5, 1, 2, 5.0)


def test_the_scale_is_divided_out_in_double_precision():
    small = torch.full((70_000,), 1e-30)
    row = gradient_row(0, _with(small), 2.0)

    assert row is not None and row.norm == pytest.approx(1e-30 * math.sqrt(70_000) / 2)


def test_equal_gradients_agree_and_permuted_ones_do_not():
    torch.manual_seed(0)
    gradient = torch.randn(300, 1000)
    one, same = (gradient_row(0, _with(gradient.clone()), 1.0) for _ in range(2))
    other = gradient_row(0, _with(gradient.flip(0)), 1.0)

    assert one == same
    assert one is not None and other is not None
    assert other.norm == pytest.approx(one.norm) and other.projection != pytest.approx(one.projection, rel=1e-3)
    assert abs(one.projection) <= one.norm


def test_the_script_s_random_numbers_stay_as_they_are():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    gradient_row(0, _with(torch.ones(3)), 1.0)

    assert torch.equal(torch.rand(3), expected)


def test_without_gradients_there_is_no_row():
    assert gradient_row(0, [torch.zeros(3, requires_grad=True)], 1.0) is None
