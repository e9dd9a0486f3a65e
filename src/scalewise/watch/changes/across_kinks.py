"""Gives values before a ReLU that are zero but for rounding the other sign.

Rounding decides on which side of the kink such a value lies, and with it whether a sample counts in a gradient: one
value of ten thousand moves a gradient by thousands of roundings. The run shows by how much.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder

NAME = "across_kinks"
CHANGE = Declared(example="across_kinks")
_SINGLE = 1e-5  # in half precision so many values lie near zero that other rounding shows what they do
_UNITS = 8  # within so many units in the last place of a tensor's mean length a value counts as zero
_FUNCTIONS = {nn.functional.relu, nn.functional.leaky_relu, torch.relu, torch.Tensor.relu}


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Stays for the whole run."""
    mode: Any = _AcrossKinks(recorder)
    mode.__enter__()


class _AcrossKinks(TorchFunctionMode):
    """A mode that looks at what every ReLU is given."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Turns what is as good as zero, while the script trains."""
        kwargs = kwargs or {}
        if func in _FUNCTIONS and args and self._looks_at(args[0]):
            near = _near_zero(args[0].detach())
            if near is not None:
                self._recorder.intervene(NAME)
                inplace = bool(kwargs.get("inplace"))
                args = (_turned(args[0], near, inplace), *args[1:])
        return func(*args, **kwargs)

    def _looks_at(self, given: Any) -> bool:
        if not self._recorder.on or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return False
        return type(given) is torch.Tensor and given.is_floating_point() and torch.finfo(given.dtype).eps < _SINGLE


def _near_zero(x: torch.Tensor) -> torch.Tensor | None:
    """The places of values that rounding may move across zero; None if there are none."""
    length = x.square().mean().sqrt()
    near = (x.abs() < _UNITS * torch.finfo(x.dtype).eps * length) & (x != 0)
    return near if bool(near.any()) else None


def _turned(x: torch.Tensor, near: torch.Tensor, inplace: bool) -> torch.Tensor:
    """The tensor with the other sign there; its gradient passes as it is."""
    with torch.no_grad():
        moved = torch.where(near, -2 * x, 0)
    return x.add_(moved) if inplace else x + moved
