"""Lets cuDNN try its algorithms once per shape and keep the fastest: `torch.backends.cudnn.benchmark = True`."""

from collections.abc import Mapping

import torch

from scalewise.records.spec import AxisValue
from scalewise.watch.recorder import Recorder
from scalewise.watch.remedies.tf32 import when_optimizers_are_made

NAME = "tuned_convolutions"


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Acts when an optimizer is made, before the first step."""

    def tune() -> None:
        if not torch.backends.cudnn.benchmark:
            torch.backends.cudnn.benchmark = True
            recorder.intervene(f"remedy:{NAME}")

    when_optimizers_are_made(tune)
