"""Gives a script a GradScaler: the loss is scaled, gradients are unscaled before a clip or the step.

The optimizer's step goes through `scaler.step`, which skips it if a gradient is not finite, and `scaler.update`.
"""

import functools
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.call_arguments import Argument
from scalewise.watch.changes.unscale_before_clip import before_clips, unscaled_now
from scalewise.watch.recorder import Recorder

NAME = "scaler"
CHANGE = Declared(settings={"init_scale": "number"}, optional=("init_scale",))


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Installs the scaler; `init_scale` may be set, otherwise it is GradScaler's own."""
    options: dict[str, Any] = {"init_scale": float(settings["init_scale"])} if "init_scale" in settings else {}
    made: list[GradScaler] = []  # made with the first loss, which shows the device
    _scale_losses(recorder, made, options)
    before_clips(lambda optimizer: made and unscaled_now(made[0], optimizer))
    _step_through(made)


def _scale_losses(recorder: Recorder, made: list[GradScaler], options: dict[str, Any]) -> None:
    autograd: Any = torch.autograd
    original = autograd.backward
    losses = Argument(original, "tensors")

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        tensors = losses.of(args, kwargs, ())
        given = list(tensors) if isinstance(tensors, (tuple, list)) else [tensors]
        first = given[0] if given else None
        if recorder.backward_depth or not isinstance(first, torch.Tensor) or first.numel() != 1:
            return original(*args, **kwargs)
        if not made:
            made.append(GradScaler(first.device.type, **options))
        recorder.intervene(NAME)
        # In single precision, for a loss in half precision would overflow where its gradients do not.
        args, kwargs = losses.replaced(made[0].scale([one.float() for one in given]), args, kwargs)
        return original(*args, **kwargs)

    autograd.backward = backward


def _step_through(made: list[GradScaler]) -> None:
    """Wraps the step of every class of optimizers: torch wraps each once, when the first instance is made."""
    wrapped: weakref.WeakSet[type[Optimizer]] = weakref.WeakSet()
    make: Any = Optimizer.__init__

    @functools.wraps(make)
    def __init__(self: Optimizer, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if type(self) not in wrapped:
            wrapped.add(type(self))
            _wrap_step(type(self), made)

    Optimizer.__init__ = __init__  # type: ignore[method-assign]


def _wrap_step(kind: Any, made: list[GradScaler]) -> None:
    original = kind.step
    inside = False

    @functools.wraps(original)
    def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside or not made or all(one.grad is None for group in self.param_groups for one in group["params"]):
            return original(self, *args, **kwargs)
        inside = True
        try:
            result = made[0].step(self, *args, **kwargs)
        finally:
            inside = False
        made[0].update()
        return result

    kind.step = step
