"""Multiplies all gradients before each step: `scale_gradients:by=0.5` where ranks sum what they should average."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import step_hooks

NAME = "scale_gradients"
CHANGE = Declared(settings={"by": "number"}, example="scale_gradients:by=0.5")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Registers the change before all notes on gradients; a step inside another one's scales nothing again."""
    by = float(settings["by"])
    done: set[tuple[int, int]] = set()  # gradients of the step under way

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        step = recorder.optimizer_steps
        for group in optimizer.param_groups:
            for one in group["params"]:
                gradient = getattr(one.grad, "_local_tensor", one.grad)
                if gradient is not None and (id(one), step) not in done:
                    done.add((id(one), step))
                    recorder.intervene(NAME)
                    with torch.no_grad():
                        gradient.mul_(by)

    step_hooks.before(recorder, before, first=True)
