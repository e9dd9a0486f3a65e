"""Makes matmuls of float32 tensors use TensorFloat-32: `torch.set_float32_matmul_precision("high")`."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.examination.torch_modes import matmul_precision
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Given, Guard, seam

NAME = "tf32"
CHANGE = Declared()


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Acts when an optimizer is made: by then a script has set what it wants, and no step is made yet."""
    when_optimizers_are_made(ChangeGuard(recorder, NAME), lambda: _allow(recorder))


def _allow(recorder: Recorder) -> None:
    if matmul_precision() == "highest":
        try:
            torch.set_float32_matmul_precision("high")
        except RuntimeError:  # the script has used the newer switch
            torch.backends.cuda.matmul.fp32_precision = "tf32"
        recorder.intervene(NAME)


def when_optimizers_are_made(guard: Guard, act: Callable[[], None]) -> None:
    """Calls `act` after each optimizer is constructed."""

    def made(args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        act()

    seam(Optimizer, "__init__").after(guard, made)
