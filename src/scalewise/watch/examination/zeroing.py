"""Notes where gradients are thrown away: `zero_grad` of an optimizer or of a module."""

import functools
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.loop import Loop, loop_of
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.probes import parameters_of


def install(notebook: Notebook) -> None:
    """Wraps both methods in their classes; one that calls the other is one call."""
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
                had = _had_gradients(loop, *look(self))
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


def _of_optimizer(optimizer: Optimizer) -> tuple[Iterable[torch.Tensor]]:
    return (parameters_of(optimizer),)


def _of_module(module: nn.Module) -> tuple[Iterable[torch.Tensor]]:
    return (list(module.parameters()),)


def _had_gradients(loop: Loop, parameters: Iterable[torch.Tensor]) -> bool:
    """Whether something is lost by it: zeros that an earlier call has left are nothing."""
    parameters = list(parameters)
    probe = loop.probes.among(parameters)
    if probe is not None:
        held = probe.holds(loop.early)
        lost = not probe.zeroed if held is None else held
        probe.zeroed = True
        if held is not False:
            return lost
    return any(one.grad is not None for one in parameters) and probe is None
