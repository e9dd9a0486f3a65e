"""Compiles the outermost model that trains by `torch.compile`, which joins many small kernels into few."""

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.hooks import compiler
from scalewise.watch.recorder import Recorder

NAME = "compiled_model"
CHANGE = Declared(compiles=True)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Compiles each outermost module with parameters at its first call in training."""
    original: Any = nn.Module.__call__
    seen: set[int] = set()
    inside = False

    @functools.wraps(original)
    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside:
            return original(self, *args, **kwargs)
        if id(self) not in seen and self.training and torch.is_grad_enabled():
            seen.add(id(self))
            if next(iter(self.parameters()), None) is not None:  # a script may give them as a list
                recorder.intervene(NAME)
                _compile(self)
        inside = True
        try:
            return original(self, *args, **kwargs)
        finally:
            inside = False

    nn.Module.__call__ = __call__  # type: ignore[method-assign]
    compiler.tell_dynamo(__call__)


def _compile(model: nn.Module) -> None:
    """Compiles only the forward function, so that hooks around it stay; for DDP, that of the model inside."""
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    inner.forward = torch.compile(inner.forward)
