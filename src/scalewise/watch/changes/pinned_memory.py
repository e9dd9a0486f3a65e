"""Makes DataLoaders pin their batches, and copies of pinned tensors to a GPU not make the host wait."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam, seams

NAME = "pinned_memory"
CHANGE = Declared(between_steps=True)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps the constructor of loaders, and the methods that copy."""
    signature = inspect.signature(DataLoader.__init__)

    def __init__(call: Any, /, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.arguments["pin_memory"] = True
        call(*bound.args, **bound.kwargs)

    seam(DataLoader, "__init__").around(__init__)
    for name, moves in seams(torch.Tensor, ("to", "cuda")).items():
        moves.around(_not_waiting(recorder, name))


def _not_waiting(recorder: Recorder, name: str) -> Any:
    """Changes copies to a GPU alone: one from a GPU may be read too early if the host does not wait for it."""

    def move(call: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            tensor.device.type == "cpu"
            and "non_blocking" not in kwargs
            and tensor.is_pinned()
            and _to_gpu(args, kwargs)
        ):
            recorder.intervene(NAME)
            kwargs["non_blocking"] = True
        return call(tensor, *args, **kwargs)

    def _to_gpu(args: Any, kwargs: Any) -> bool:
        if name == "cuda":
            return len(args) < 2
        target = kwargs.get("device", args[0] if args else None)
        positional = any(type(one) is bool for one in args)  # to(device, dtype, non_blocking)
        named = isinstance(target, (str, int, torch.device)) and type(target) is not bool
        return named and not positional and torch.device(target).type == "cuda"

    return move
