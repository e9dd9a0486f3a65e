"""Switches debugging off: anomaly detection, CUDA_LAUNCH_BLOCKING and TORCH_DISTRIBUTED_DEBUG."""

import os
from collections.abc import Mapping
from typing import Any

import torch

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Given, seam

NAME = "debugging_off"
CHANGE = Declared()
LAUNCH_BLOCKING = "CUDA_LAUNCH_BLOCKING"


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Switches each of them off, whatever the script asks for."""
    _no_anomaly(recorder)
    _no_blocking(recorder)
    _no_checked_collectives(recorder)


def _no_anomaly(recorder: Recorder) -> None:
    """Wraps anomaly detection, so that what would switch it on leaves it off."""

    def __init__(call: Any, self: Any, mode: bool, check_nan: bool = True) -> None:
        if mode:
            recorder.intervene(NAME)
        call(self, False, check_nan)

    def __enter__(call: Any, self: Any) -> None:
        recorder.intervene(NAME)

    seam(torch.autograd.set_detect_anomaly, "__init__").around(__init__)
    seam(torch.autograd.detect_anomaly, "__enter__").around(__enter__)


def _no_blocking(recorder: Recorder) -> None:
    """Removes the variable before CUDA reads it on initialisation, maybe after the script's own first lines."""

    def forget() -> None:
        if os.environ.pop(LAUNCH_BLOCKING, None) not in (None, "", "0"):
            recorder.intervene(NAME)

    def initialise(args: tuple[Any, ...], kwargs: Given) -> None:
        if not torch.cuda.is_initialized():
            forget()

    forget()
    seam(torch.cuda, "_lazy_init").before(ChangeGuard(recorder, NAME), initialise)


def _no_checked_collectives(recorder: Recorder) -> None:
    """Resets the level, which is read when torch is imported, and holds for process groups made later."""
    dist: Any = torch.distributed
    if dist.is_available() and dist.get_debug_level() != dist.DebugLevel.OFF:
        dist.set_debug_level(dist.DebugLevel.OFF)
        recorder.intervene(NAME)
