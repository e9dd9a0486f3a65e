"""Computes the same with other rounding: parameters moved by half a unit of the last place, products in parts."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "other_rounding"
CHANGE = Declared(settings={"parts": "whole"}, example="other_rounding:parts=2")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Moves each model once; splits the rows and sums of products with a weight, unless there is one part."""
    if int(settings["parts"]) > 1:
        mode: Any = _InParts(recorder, int(settings["parts"]))
        mode.__enter__()
    moved: set[int] = set()
    generator = torch.Generator().manual_seed(3)
    inside = False

    def __call__(call: Any, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside or not recorder.on or recorder.backward_depth or not torch.is_grad_enabled():
            return call(module, *args, **kwargs)
        inside = True
        try:
            for one in module.parameters():
                if id(one) not in moved and one.is_floating_point():
                    moved.add(id(one))
                    _move(one, generator)
            return call(module, *args, **kwargs)
        finally:
            inside = False

    seam(nn.Module, "__call__").around(__call__)


def _move(parameter: Any, generator: torch.Generator) -> None:
    local = getattr(parameter, "_local_tensor", parameter).data
    unit = torch.finfo(local.dtype).eps / 2
    signs = torch.randint(0, 2, tuple(local.shape), generator=generator).to(local.device) * 2 - 1
    local.mul_(1 + signs * unit * 1.01)


class _InParts(TorchFunctionMode):
    """A mode that splits matrix products and convolutions with a weight into parts along their sums."""

    def __init__(self, recorder: Recorder, parts: int) -> None:
        super().__init__()
        self._recorder = recorder
        self._parts = parts
        functions = nn.functional
        self._rows = {functions.conv1d, functions.conv2d, functions.conv3d, functions.embedding, functions.layer_norm}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls the function on parts of its first argument, if the parts make up the whole."""
        kwargs = kwargs or {}
        plain = len(args) > 1 and all(type(one) in (torch.Tensor, nn.Parameter) for one in args[:2])
        if plain and args[0].dim() > 1 and args[0].shape[0] >= self._parts and not torch.compiler.is_compiling():
            if func is nn.functional.linear and args[1].dim() == 2:
                self._recorder.intervene(NAME)
                return torch.cat([_linear(one, *args[1:], **kwargs) for one in args[0].chunk(self._parts)])
            if func in self._rows and args[0].dim() != 1:
                self._recorder.intervene(NAME)
                return torch.cat([func(one, *args[1:], **kwargs) for one in args[0].chunk(self._parts)])
        return func(*args, **kwargs)


def _linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    half = weight.shape[1] // 2
    if not half:
        return nn.functional.linear(rows, weight, bias)
    first = nn.functional.linear(rows[..., :half], weight[:, :half])
    return nn.functional.linear(rows[..., half:], weight[:, half:], bias) + first
