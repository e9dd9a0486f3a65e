"""Gives a script a GradScaler: the loss is scaled, gradients are unscaled before a clip or the step.

The optimizer's step goes through `scaler.step`, which skips it if a gradient is not finite, and `scaler.update`.
"""

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.call_arguments import Argument, receiver
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.changes.unscale_before_clip import before_clips, unscaled_now
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Given, Guard, seam

NAME = "scaler"
CHANGE = Declared(settings={"init_scale": "number"}, optional=("init_scale",))


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Installs the scaler; `init_scale` may be set, otherwise it is GradScaler's own."""
    options: dict[str, Any] = {"init_scale": float(settings["init_scale"])} if "init_scale" in settings else {}
    guard = ChangeGuard(recorder, NAME)
    made: list[GradScaler] = []  # made with the first loss, which shows the device
    _scale_losses(recorder, made, options)
    before_clips(guard, lambda optimizer: made and unscaled_now(made[0], optimizer))
    _step_through(guard, made)


def _scale_losses(recorder: Recorder, made: list[GradScaler], options: dict[str, Any]) -> None:
    losses = Argument(torch.autograd.backward, "tensors")

    def backward(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        tensors = losses.of(args, kwargs, ())
        given = list(tensors) if isinstance(tensors, (tuple, list)) else [tensors]
        first = given[0] if given else None
        if recorder.backward_depth or not isinstance(first, torch.Tensor) or first.numel() != 1:
            return call(*args, **kwargs)
        if not made:
            made.append(GradScaler(first.device.type, **options))
        recorder.intervene(NAME)
        # In single precision, for a loss in half precision would overflow where its gradients do not.
        args, kwargs = losses.replaced(made[0].scale([one.float() for one in given]), args, kwargs)
        return call(*args, **kwargs)

    seam(torch.autograd, "backward").around(backward)


def _step_through(guard: Guard, made: list[GradScaler]) -> None:
    """Wraps the step of every class of optimizers: torch wraps each once, when the first instance is made."""
    wrapped: weakref.WeakSet[type[Optimizer]] = weakref.WeakSet()

    def make(args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        kind = type(receiver(args, kwargs))
        if kind not in wrapped:
            wrapped.add(kind)
            _wrap_step(kind, made)

    seam(Optimizer, "__init__").after(guard, make)


def _wrap_step(kind: type[Optimizer], made: list[GradScaler]) -> None:
    inside = False

    def step(call: Any, self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside or not made or all(one.grad is None for group in self.param_groups for one in group["params"]):
            return call(self, *args, **kwargs)
        inside = True
        try:
            result = made[0].step(self, *args, **kwargs)
        finally:
            inside = False
        made[0].update()
        return result

    seam(kind, "step").around(step)
