"""Measures how healthy gradients are: zeros, non-finite values, norm, and projection on a fixed direction."""

import functools
import math
from collections.abc import Iterable, Sequence

import torch

from scalewise.records.inspection import GradientRow

# The direction is a row of random signs, repeated. Its length is a prime, so that no layer's rows line up with it.
# Gradients are read in small pieces, because they are read in double precision and memory is being watched.
_PERIOD = 65_537
_PIECE = 4 * _PERIOD
_STRIDE = 7919  # by which the direction is shifted from one parameter to the next


def gradient_row(step: int, parameters: Sequence[torch.Tensor], scale: float) -> GradientRow | None:
    """The row on the gradients as they are, divided by the scale; None if there are none."""
    sums: dict[torch.device, torch.Tensor] = {}
    elements = 0
    with torch.no_grad():
        for index, parameter in enumerate(parameters):
            if parameter.grad is not None:
                gradient = _local(parameter.grad)
                elements += gradient.numel()
                found = sums.setdefault(gradient.device, torch.zeros(4, dtype=torch.float64, device=gradient.device))
                _add(found, gradient, index * _STRIDE % _PERIOD)
        if not elements:
            return None
        zeros, non_finite, squares, projection = (sum(column) for column in zip(*_numbers(sums.values()), strict=True))
    return GradientRow(
        step=step,
        elements=elements,
        zeros=int(zeros),
        non_finite=int(non_finite),
        norm=math.sqrt(squares) / scale,
        projection=projection / scale / math.sqrt(elements),
    )


def _numbers(sums: Iterable[torch.Tensor]) -> list[list[float]]:
    return [one.tolist() for one in sums]


def _local(gradient: torch.Tensor) -> torch.Tensor:
    """The shard of a sharded gradient on this rank; the values of a sparse one."""
    local: torch.Tensor = getattr(gradient, "_local_tensor", gradient).detach()
    return local.coalesce().values() if local.is_sparse else local


def _add(sums: torch.Tensor, gradient: torch.Tensor, start: int) -> None:
    signs = _signs(gradient.device)
    for piece in gradient.reshape(-1).split(_PIECE):
        values = piece.double()
        finite = values.isfinite()
        sums[0] += (values == 0).sum()
        sums[1] += values.numel() - finite.sum()
        values = torch.where(finite, values, 0.0)
        sums[2] += (values * values).sum()
        sums[3] += (values * signs[start : start + values.numel()]).sum()


@functools.cache
def _signs(device: torch.device) -> torch.Tensor:
    """Random signs from a generator of their own: the script's random numbers stay as they are."""
    generator = torch.Generator().manual_seed(1)
    signs = torch.randint(0, 2, (_PERIOD,), generator=generator, dtype=torch.int8) * 2 - 1
    return signs.repeat(_PIECE // _PERIOD + 1).to(device)
