"""Averages all gradients over the ranks before each optimizer step, or sums those in which ranks differ."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed import distributed_c10d
from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import step_hooks

NAME = "average_gradients"
CHANGE = Declared(settings={"sum": "whole"}, optional=("sum",), least_ranks=2)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Exchanges gradients before other subscribers see them; `sum=1` sums those in which ranks differ."""
    adds = bool(settings.get("sum"))

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for one in group["params"]:
                gradient = getattr(one.grad, "_local_tensor", one.grad)
                if gradient is not None and type(gradient) is type(one.grad):
                    recorder.intervene(NAME)
                    _exchange(gradient, adds)

    step_hooks.before(recorder, before, first=True)


def _exchange(gradient: torch.Tensor, adds: bool) -> None:
    group = distributed_c10d._get_default_group()
    with torch.no_grad():
        everyone = gradient.clone()
        group.allreduce([everyone]).wait()
        if adds:
            apart = (everyone / group.size() - gradient).abs().max() > 1e-5 * gradient.abs().max()
            differs = apart.to(torch.float32)
            group.allreduce([differs]).wait()
            gradient.copy_(everyone if float(differs) else gradient)
        else:
            gradient.copy_(everyone / group.size())
