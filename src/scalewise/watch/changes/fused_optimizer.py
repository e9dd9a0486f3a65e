"""Constructs optimizers whose parameters are on a GPU with `fused=True`: they update them in few kernels."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "fused_optimizer"
CHANGE = Declared()
KINDS = ("Adam", "AdamW", "SGD", "Adagrad")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps torch's optimizers that have a fused form."""
    for name in KINDS:
        _fuse(recorder, getattr(torch.optim, name))


def _fuse(recorder: Recorder, kind: Any) -> None:
    signature = inspect.signature(kind.__init__)

    def __init__(call: Any, /, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        given = bound.arguments
        if type(given["self"]) is kind and not given.get("fused") and not given.get("differentiable"):
            given["params"] = listed = list(given["params"])
            if all(one.is_cuda and torch.is_floating_point(one) for one in _tensors(listed)):
                given["fused"], given["foreach"] = True, None
                recorder.intervene(NAME)
        call(*bound.args, **bound.kwargs)

    seam(kind, "__init__").around(__init__)


def _tensors(given: list[Any]) -> list[torch.Tensor]:
    """The parameters, given as such, with names, or in groups; a generator in a group is read once and put back."""
    found: list[torch.Tensor] = []
    for one in given:
        if isinstance(one, dict):
            members = one["params"]
            one["params"] = members if isinstance(members, torch.Tensor) else list(members)
            found += _tensors([members] if isinstance(members, torch.Tensor) else one["params"])
        else:
            found.append(one[1] if isinstance(one, tuple) else one)
    return found
