"""Notes the step of every optimizer through torch's own global hooks."""

import sys
from types import CodeType, FrameType
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from scalewise.watch.probe_torch import TorchProbe
from scalewise.watch.recorder import Recorder

# The functions around every optimizer's step: torch's own, and our wrapper of GradScaler's.
_AROUND_A_STEP: set[CodeType] = set()


def note_step_function(code: CodeType) -> None:
    """Registers code of which a frame on the stack means that an optimizer is at its step."""
    _AROUND_A_STEP.add(code)


def steps_under_way() -> int:
    """The number of optimizers really at their steps: one that raised has no frame left, and called no hook."""
    frame: FrameType | None = sys._getframe(1)
    found = 0
    while frame is not None:
        found += frame.f_code in _AROUND_A_STEP
        frame = frame.f_back
    return found


def changes_nothing(optimizer: Optimizer, args: Any, kwargs: Any) -> bool:
    """Returns whether a step outside any forward and backward only creates the optimizer's state, as loading does.

    The first of `args` is the optimizer itself. torch.distributed.checkpoint steps with zero gradients and a learning
    rate of 0; others step without any gradient.
    """
    if len(args) > 1 or kwargs.get("closure") is not None:
        return False
    groups = optimizer.param_groups
    return all(_is_zero(group.get("lr")) for group in groups) or all(
        parameter.grad is None for group in groups for parameter in group["params"]
    )


def _is_zero(rate: Any) -> bool:
    if isinstance(rate, torch.Tensor):
        return not rate.is_cuda and bool((rate == 0).all())
    return isinstance(rate, (int, float)) and rate == 0


def install(recorder: Recorder, probe: TorchProbe) -> None:
    """Registers hooks: one begins the optimizer phase (and the step, for a closure), the other ends the step."""

    first, ignored = True, False

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        nonlocal first, ignored
        ignored = False
        if recorder.on:
            try:
                if recorder.backward_depth and not recorder.optimizer_depth:
                    index = probe.index_of(optimizer)
                    others = recorder.stepped_in_backward
                    recorder.stepped_in_backward = index if others is None else min(index, others)
                    if index:
                        recorder.may_rest = False  # each of them would be counted as a step
                    return
                if first:
                    first = False
                    note_step_function(sys._getframe(1).f_code)
                if recorder.optimizer_depth:
                    around = steps_under_way() - 1
                    if recorder.optimizer_depth > around:
                        recorder.drop_step(around)
                if not recorder.open and changes_nothing(optimizer, args, kwargs):
                    ignored = True
                    return
                recorder.optimizer_begin(probe.index_of(optimizer))
            except Exception as error:
                recorder.broke("optimizer", error)

    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        try:
            if not recorder.awake:
                recorder.rested += 1
                if recorder.rested >= recorder.rest_steps:
                    recorder.wake()
            elif recorder.on and not ignored:
                recorder.optimizer_steps += 1
                if recorder.backward_depth and not recorder.optimizer_depth:
                    return  # the step ends with the backward pass that this is a part of
                recorder.optimizer_end(probe.index_of(optimizer))
        except Exception as error:
            recorder.broke("optimizer", error)

    handle = register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)

    def rest(resting: bool) -> None:
        nonlocal handle
        if resting:
            handle.remove()
        else:
            handle = register_optimizer_step_pre_hook(before)

    recorder.on_rest.append(rest)
