"""Constructs a GradScaler disabled: bfloat16 has the range of float32 and needs none."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from torch.amp.grad_scaler import GradScaler

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder

NAME = "no_scaler"
CHANGE = Declared()


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps the constructor of every scaler, by whatever name it is made."""
    original: Any = GradScaler.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        if bound.arguments.get("enabled", True):
            bound.arguments["enabled"] = False
            recorder.intervene(NAME)
        original(*bound.args, **bound.kwargs)

    GradScaler.__init__ = __init__  # type: ignore[method-assign]
