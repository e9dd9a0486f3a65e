"""Makes matmuls of float32 tensors use TensorFloat-32: `torch.set_float32_matmul_precision("high")`."""

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.examination.settings import matmul_precision
from scalewise.watch.recorder import Recorder

NAME = "tf32"
CHANGE = Declared()


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Acts when an optimizer is made: by then a script has set what it wants, and no step is made yet."""
    when_optimizers_are_made(lambda: _allow(recorder))


def _allow(recorder: Recorder) -> None:
    if matmul_precision() == "highest":
        try:
            torch.set_float32_matmul_precision("high")
        except RuntimeError:  # the script has used the newer switch
            torch.backends.cuda.matmul.fp32_precision = "tf32"
        recorder.intervene(NAME)


def when_optimizers_are_made(act: Any) -> None:
    """Calls `act` after each optimizer is constructed."""
    original: Any = Optimizer.__init__

    @functools.wraps(original)
    def __init__(self: Optimizer, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        act()

    Optimizer.__init__ = __init__  # type: ignore[method-assign]
