"""Makes DataLoaders pin their batches, and copies of pinned tensors to a GPU not make the host wait."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder

NAME = "pinned_memory"
CHANGE = Declared(between_steps=True)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps the constructor of loaders, and the methods that copy."""
    original: Any = DataLoader.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.arguments["pin_memory"] = True
        original(*bound.args, **bound.kwargs)

    DataLoader.__init__ = __init__  # type: ignore[method-assign]
    for name in ("to", "cuda"):
        setattr(torch.Tensor, name, _not_waiting(recorder, getattr(torch.Tensor, name)))


def _not_waiting(recorder: Recorder, original: Any) -> Any:
    """Wraps only copies to a GPU: a copy from a GPU may be read too early if the host does not wait for it."""

    @functools.wraps(original)
    def move(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if (
            tensor.device.type == "cpu"
            and "non_blocking" not in kwargs
            and tensor.is_pinned()
            and _to_gpu(args, kwargs)
        ):
            recorder.intervene(NAME)
            kwargs["non_blocking"] = True
        return original(tensor, *args, **kwargs)

    def _to_gpu(args: Any, kwargs: Any) -> bool:
        if original.__name__ == "cuda":
            return len(args) < 2
        target = kwargs.get("device", args[0] if args else None)
        positional = any(type(one) is bool for one in args)  # to(device, dtype, non_blocking)
        named = isinstance(target, (str, int, torch.device)) and type(target) is not bool
        return named and not positional and torch.device(target).type == "cuda"

    move.__wrapped__ = inspect.unwrap(original)
    return move
