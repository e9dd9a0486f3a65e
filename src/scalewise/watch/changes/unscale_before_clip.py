"""Unscales gradients before they are clipped: `scaler.unscale_(optimizer)` ahead of every clip."""

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler, OptState
from torch.nn.utils import clip_grad
from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.call_arguments import Argument, receiver
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Given, Guard, seam, seams

NAME = "unscale_before_clip"
CHANGE = Declared()
_CLIPPED = Argument(clip_grad.clip_grad_norm_, "parameters")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Unscales by the scaler of the last loss; if the script unscales later, that is skipped."""
    guard = ChangeGuard(recorder, NAME)
    used: list[GradScaler] = []
    done: set[int] = set()  # optimizers whose gradients were unscaled here since the last loss

    def scale(args: tuple[Any, ...], kwargs: Given) -> None:
        used[:] = [receiver(args, kwargs)]
        done.clear()

    def unscale(optimizer: Optimizer) -> None:
        for scaler in used:
            if unscaled_now(scaler, optimizer):
                done.add(id(optimizer))
                recorder.intervene(NAME)

    def unscale_(call: Any, self: GradScaler, optimizer: Optimizer) -> None:
        if id(optimizer) in done:
            done.discard(id(optimizer))
        else:
            call(self, optimizer)

    seam(GradScaler, "scale").before(guard, scale)
    seam(GradScaler, "unscale_").around(unscale_)
    before_clips(guard, unscale)


def unscaled_now(scaler: GradScaler, optimizer: Optimizer) -> bool:
    """Unscales the optimizer's gradients, unless they are unscaled or there are none; returns whether it did."""
    if not scaler.is_enabled() or scaler._scale is None:
        return False
    if scaler._per_optimizer_states[id(optimizer)]["stage"] is not OptState.READY:
        return False
    if all(one.grad is None for group in optimizer.param_groups for one in group["params"]):
        return False
    scaler.unscale_(optimizer)
    return True


def before_clips(guard: Guard, act: Callable[[Optimizer], object]) -> None:
    """Calls `act` with every optimizer that holds one of the parameters about to be clipped."""
    optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()

    def made(args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        optimizers.add(receiver(args, kwargs))

    def clip(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        parameters = _CLIPPED.of(args, kwargs, ())
        listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        clipped = {id(one) for one in listed}
        for optimizer in list(optimizers):
            if any(id(one) in clipped for group in optimizer.param_groups for one in group["params"]):
                act(optimizer)
        args, kwargs = _CLIPPED.replaced(listed, args, kwargs)
        return call(*args, **kwargs)

    seam(Optimizer, "__init__").after(guard, made)
    for clips in seams(clip_grad, ("clip_grad_norm_", "clip_grad_value_"), also=[torch.nn.utils]).values():
        clips.around(clip)
