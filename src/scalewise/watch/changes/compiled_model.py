"""Compiles the outermost model that trains by `torch.compile`, which joins many small kernels into few."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.hooks import compiler
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam
from scalewise.watch.wrappers import kind_of

NAME = "compiled_model"
CHANGE = Declared(compiles=True)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Compiles each outermost module with parameters at its first call in training."""
    seen: set[int] = set()
    inside = False

    def __call__(call: Any, self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside:
            return call(self, *args, **kwargs)
        if id(self) not in seen and self.training and torch.is_grad_enabled():
            seen.add(id(self))
            if next(iter(self.parameters()), None) is not None:  # a script may give them as a list
                recorder.intervene(NAME)
                _compile(self)
        inside = True
        try:
            return call(self, *args, **kwargs)
        finally:
            inside = False

    seam(nn.Module, "__call__").around(__call__)
    compiler.tell_dynamo(nn.Module.__call__)


def _compile(model: nn.Module) -> None:
    """Compiles only the forward function, so that hooks around it stay; for DDP, that of the model inside."""
    kind = kind_of(model)
    inner: Any = model.module if kind is not None and kind.exchange == "reducer" else model
    inner.forward = torch.compile(inner.forward)
