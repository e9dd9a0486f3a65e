"""Copies between two stand-in devices by an operator of its own, which copies forward and backward."""

from collections.abc import Callable
from typing import Any

import torch

from scalewise.records.inspection import LOGICAL_PREFIX

_LIBRARY = torch.library.Library(LOGICAL_PREFIX.rstrip(":"), "DEF")  # exists as long as its operators are needed
_LIBRARY.define("move(Tensor x, str source, str target) -> Tensor")
_LIBRARY.impl("move", lambda x, source, target: x.clone(), "CompositeExplicitAutograd")


def name_of(place: int) -> str:
    """The name of the stand-in for this GPU in records."""
    return f"{LOGICAL_PREFIX}{place}"


def moved(x: torch.Tensor, source: int, target: int, put: Callable[[torch.Tensor, int], None]) -> torch.Tensor:
    """A copy on the other device; its gradient is copied back. `put` notes where each copy lies."""
    return _Move.apply(x, source, target, put)  # type: ignore[no-any-return, no-untyped-call]


class _Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, source: int, target: int, put: Any) -> torch.Tensor:
        ctx.way = source, target, put
        with torch._C.DisableTorchFunction():  # what is computed from a tensor is believed to lie beside it; not this
            result: torch.Tensor = torch.ops.logical.move(x, name_of(source), name_of(target))
        put(result, target)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        source, target, put = ctx.way
        return _Move.apply(gradient, target, source, put), None, None, None  # type: ignore[no-untyped-call]
