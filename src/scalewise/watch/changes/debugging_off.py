"""Switches debugging off: anomaly detection, CUDA_LAUNCH_BLOCKING and TORCH_DISTRIBUTED_DEBUG."""

import functools
import os
from collections.abc import Mapping
from typing import Any

import torch

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder

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
    switch, context = torch.autograd.set_detect_anomaly, torch.autograd.detect_anomaly
    set_up: Any = switch.__init__

    @functools.wraps(set_up)
    def __init__(self: Any, mode: bool, check_nan: bool = True) -> None:
        if mode:
            recorder.intervene(NAME)
        set_up(self, False, check_nan)

    def __enter__(self: Any) -> None:
        recorder.intervene(NAME)

    switch.__init__ = __init__  # type: ignore[method-assign]
    context.__enter__ = __enter__  # type: ignore[method-assign]


def _no_blocking(recorder: Recorder) -> None:
    """Removes the variable before CUDA reads it on initialisation, maybe after the script's own first lines."""
    initialise: Any = torch.cuda._lazy_init

    def forget() -> None:
        if os.environ.pop(LAUNCH_BLOCKING, None) not in (None, "", "0"):
            recorder.intervene(NAME)

    @functools.wraps(initialise)
    def _lazy_init() -> None:
        if not torch.cuda.is_initialized():
            forget()
        initialise()

    forget()
    torch.cuda._lazy_init = _lazy_init


def _no_checked_collectives(recorder: Recorder) -> None:
    """Resets the level, which is read when torch is imported, and holds for process groups made later."""
    dist: Any = torch.distributed
    if dist.is_available() and dist.get_debug_level() != dist.DebugLevel.OFF:
        dist.set_debug_level(dist.DebugLevel.OFF)
        recorder.intervene(NAME)
