"""Gives all ranks rank 0's parameters and buffers, when a model is first called to be trained."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed import distributed_c10d

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "same_start"
CHANGE = Declared(least_ranks=2)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps the call of modules; only whole tensors are sent, as shards are the ranks' own."""
    started: set[int] = set()
    inside = False

    def __call__(call: Any, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        ready = torch.distributed.is_available() and torch.distributed.is_initialized()
        if inside or not ready or recorder.backward_depth or not torch.is_grad_enabled() or id(module) in started:
            return call(module, *args, **kwargs)
        started.add(id(module))
        inside = True
        try:
            for one in (*module.parameters(), *module.buffers()):
                if type(one.data) is torch.Tensor and not hasattr(one, "_local_tensor"):
                    recorder.intervene(NAME)
                    distributed_c10d._get_default_group().broadcast(
                        [one.data], distributed_c10d.BroadcastOptions()
                    ).wait()
            inside = False
            return call(module, *args, **kwargs)
        finally:
            inside = False

    seam(nn.Module, "__call__").around(__call__)
