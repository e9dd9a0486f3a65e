"""Lets torch.compile compile once for all sizes: `dynamic=True`, and integers of modules are no constants."""

from collections.abc import Mapping
from typing import Any

import torch

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.imports import after_import
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "dynamic_shapes"
CHANGE = Declared()


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps one function, which `Module.compile` and the decorator call as well."""

    def compile_(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        recorder.intervene(NAME)
        kwargs["dynamic"] = True
        return call(*args, **kwargs)

    def numbers_may_change() -> None:
        config: Any = torch._dynamo.config
        if hasattr(config, "allow_unspec_int_on_nn_module"):
            config.allow_unspec_int_on_nn_module = True

    seam(torch, "compile").around(compile_)
    after_import("torch._dynamo", numbers_may_change)
