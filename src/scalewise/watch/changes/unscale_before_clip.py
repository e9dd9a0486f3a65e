"""Unscales gradients before they are clipped: `scaler.unscale_(optimizer)` ahead of every clip."""

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler, OptState
from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.call_arguments import Argument
from scalewise.watch.recorder import Recorder

NAME = "unscale_before_clip"
CHANGE = Declared()
_CLIPS = ("clip_grad_norm_", "clip_grad_value_")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Unscales by the scaler of the last loss; if the script unscales later, that is skipped."""
    scale: Any = GradScaler.scale
    unscale_: Any = GradScaler.unscale_
    used: list[GradScaler] = []
    done: set[int] = set()  # optimizers whose gradients were unscaled here since the last loss

    @functools.wraps(scale)
    def remembered(self: GradScaler, outputs: Any) -> Any:
        used[:] = [self]
        done.clear()
        return scale(self, outputs)

    def unscale(optimizer: Optimizer) -> None:
        for scaler in used:
            if unscaled_now(scaler, optimizer):
                done.add(id(optimizer))
                recorder.intervene(NAME)

    @functools.wraps(unscale_)
    def unscale_once(self: GradScaler, optimizer: Optimizer) -> None:
        if id(optimizer) in done:
            done.discard(id(optimizer))
        else:
            unscale_(self, optimizer)

    GradScaler.scale = remembered  # type: ignore[method-assign]
    GradScaler.unscale_ = unscale_once  # type: ignore[method-assign]
    before_clips(unscale)


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


def before_clips(act: Callable[[Optimizer], object]) -> None:
    """Calls `act` with every optimizer that holds one of the parameters about to be clipped."""
    optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
    make: Any = Optimizer.__init__

    @functools.wraps(make)
    def __init__(self: Optimizer, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        optimizers.add(self)

    def watched(clip: Any) -> Any:
        about = Argument(clip, "parameters")

        @functools.wraps(clip)
        def clip_grad(*args: Any, **kwargs: Any) -> Any:
            parameters = about.of(args, kwargs, ())
            listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            clipped = {id(one) for one in listed}
            for optimizer in list(optimizers):
                if any(id(one) in clipped for group in optimizer.param_groups for one in group["params"]):
                    act(optimizer)
            args, kwargs = about.replaced(listed, args, kwargs)
            return clip(*args, **kwargs)

        return clip_grad

    Optimizer.__init__ = __init__  # type: ignore[method-assign]
    for name in _CLIPS:
        wrapped = watched(getattr(torch.nn.utils, name))
        for place in (torch.nn.utils, torch.nn.utils.clip_grad):
            setattr(place, name, wrapped)
