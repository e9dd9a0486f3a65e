"""Notes where gradients are thrown away: in `zero_grad` of an optimizer or of a module."""

import functools
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.loop import Loop, loop_of
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.probes import GradientProbe, parameters_of


def install(notebook: Notebook) -> None:
    """Wraps both methods in their classes; a call of one inside the other counts once."""
    loop = loop_of(notebook)
    under_way = False

    def watched(original: Any, look: Any) -> Any:
        @functools.wraps(original)
        def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal under_way
            if under_way or not notebook.on:
                return original(self, *args, **kwargs)
            had = False
            try:
                had = look(loop, self)
            except Exception as error:
                notebook.broke("zero_grad", error)
            under_way = True
            try:
                result = original(self, *args, **kwargs)
            finally:
                under_way = False
            try:
                notebook.note("zero", loop.optimizer(self) if isinstance(self, Optimizer) else NOWHERE, had)
            except Exception as error:
                notebook.broke("zero_grad", error)
            return result

        return zero_grad

    Optimizer.zero_grad = watched(Optimizer.zero_grad, _of_optimizer)  # type: ignore[method-assign]
    nn.Module.zero_grad = watched(nn.Module.zero_grad, _of_module)  # type: ignore[method-assign]


def _of_optimizer(loop: Loop, optimizer: Optimizer) -> bool:
    return _loses(loop, loop.probes.of(loop.optimizer(optimizer)), parameters_of(optimizer))


def _of_module(loop: Loop, module: nn.Module) -> bool:
    parameters: list[torch.Tensor] = list(module.parameters())
    return _loses(loop, loop.probes.among(parameters), parameters)


def _loses(loop: Loop, probe: GradientProbe | None, parameters: list[torch.Tensor]) -> bool:
    """Returns whether gradients are thrown away: zeros that an earlier call has left do not count."""
    if probe is None or probe.parameter is None:
        return any(one.grad is not None for one in parameters)
    held = probe.holds(loop.early) if loop.close else None  # later, what was seen of backward and zeroing is enough
    lost = not probe.zeroed and probe.gradient is not None if held is None else held
    probe.zeroed = True
    return lost
