"""Makes `torch.cuda.empty_cache()`, `torch.cuda.ipc_collect()` and `gc.collect()` do nothing once training begins."""

import gc
from collections.abc import Mapping
from typing import Any

import torch

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import caller, seam, seams

NAME = "no_housekeeping"
CHANGE = Declared(between_steps=True)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Replaces the functions wherever torch has bound them; torch's own calls are left alone."""

    def idle(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        by_torch = str(caller().f_globals.get("__name__", "")).startswith("torch.")
        if by_torch or not recorder.started:
            return call(*args, **kwargs)
        recorder.intervene(NAME)
        return None

    def collect(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        found = idle(call, *args, **kwargs)
        return 0 if found is None else found

    for owner in (torch.cuda, getattr(torch, "accelerator", None)):
        for tidies in seams(owner, ("empty_cache", "ipc_collect"), also=[getattr(owner, "memory", None)]).values():
            tidies.around(idle)
    seam(gc, "collect").around(collect)
