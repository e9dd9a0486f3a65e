"""Divides what backward is called on, scaled or not: `(loss / by).backward()`."""

from collections.abc import Mapping
from typing import Any

import torch

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.call_arguments import Argument
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "divide_loss"
CHANGE = Declared(settings={"by": "number"}, example="divide_loss:by=4")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps one function, which is enough: `Tensor.backward` calls `torch.autograd.backward`."""
    by = float(settings["by"])
    if not by > 0:
        raise ValueError(f"a loss cannot be divided by {by:g}")
    losses = Argument(torch.autograd.backward, "tensors")

    def backward(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not recorder.backward_depth:  # one inside another (checkpointing) carries a gradient that is divided already
            recorder.intervene(NAME)
            args, kwargs = losses.replaced(_divided(losses.of(args, kwargs), by), args, kwargs)
        return call(*args, **kwargs)

    seam(torch.autograd, "backward").around(backward)


def _divided(tensors: Any, by: float) -> Any:
    if isinstance(tensors, torch.Tensor):
        return tensors / by
    return type(tensors)(one / by for one in tensors) if isinstance(tensors, (tuple, list)) else tensors
