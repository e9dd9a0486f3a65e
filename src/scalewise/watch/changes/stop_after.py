"""Ends every rank when it is about to make a further step, as a job that is stopped between two checkpoints."""

import os
import time
from collections.abc import Mapping
from typing import Any

from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import step_hooks

NAME = "stop_after"
CHANGE = Declared(settings={"steps": "whole"}, example="stop_after:steps=10")
_SECONDS = 0.5  # for the messages of a backward pass that another rank still receives


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Registers the end before the optimizer, when gradients are there and parameters are not yet moved."""
    steps = int(settings["steps"])

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if recorder.on and recorder.step >= steps:
            recorder.intervene(NAME)
            recorder.journal.flush()
            time.sleep(_SECONDS)
            os._exit(0)

    step_hooks.before(recorder, before)
