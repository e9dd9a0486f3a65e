"""Lets cuDNN try its algorithms once per shape and keep the fastest: `torch.backends.cudnn.benchmark = True`."""

from collections.abc import Mapping

import torch

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.changes.tf32 import when_optimizers_are_made
from scalewise.watch.recorder import Recorder

NAME = "tuned_convolutions"
CHANGE = Declared()


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Acts when an optimizer is made, before the first step."""

    def tune() -> None:
        if not torch.backends.cudnn.benchmark:
            torch.backends.cudnn.benchmark = True
            recorder.intervene(NAME)

    when_optimizers_are_made(ChangeGuard(recorder, NAME), tune)
