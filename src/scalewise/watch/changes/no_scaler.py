"""Constructs a GradScaler disabled: bfloat16 has the range of float32 and needs none."""

import inspect
from collections.abc import Mapping
from typing import Any

from torch.amp.grad_scaler import GradScaler

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "no_scaler"
CHANGE = Declared()


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps the constructor of every scaler, by whatever name it is made."""
    signature = inspect.signature(GradScaler.__init__)

    def __init__(call: Any, /, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        if bound.arguments.get("enabled", True):
            bound.arguments["enabled"] = False
            recorder.intervene(NAME)
        call(*bound.args, **bound.kwargs)

    seam(GradScaler, "__init__").around(__init__)
