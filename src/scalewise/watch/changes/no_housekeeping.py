"""Makes `torch.cuda.empty_cache()`, `torch.cuda.ipc_collect()` and `gc.collect()` do nothing once training begins."""

import gc
import sys
from collections.abc import Mapping
from typing import Any

import torch

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder

NAME = "no_housekeeping"
CHANGE = Declared(between_steps=True)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Replaces the functions wherever torch has bound them; torch's own calls are left alone."""
    owners: list[tuple[Any, str]] = [
        (torch.cuda, "empty_cache"), (torch.cuda.memory, "empty_cache"), (torch.cuda, "ipc_collect"), (gc, "collect"),
    ]  # fmt: skip
    if hasattr(getattr(torch, "accelerator", None), "empty_cache"):
        owners += [(torch.accelerator, "empty_cache"), (torch.accelerator.memory, "empty_cache")]
    for owner, name in owners:
        setattr(owner, name, _idle(recorder, getattr(owner, name)))


def _idle(recorder: Recorder, original: Any) -> Any:
    def idle(*args: Any, **kwargs: Any) -> Any:
        by_torch = str(sys._getframe(1).f_globals.get("__name__", "")).startswith("torch.")
        if by_torch or not recorder.started:
            return original(*args, **kwargs)
        recorder.intervene(NAME)
        return 0 if original.__name__ == "collect" else None

    return idle
