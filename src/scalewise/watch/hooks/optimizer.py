"""Sees the step of every optimizer through torch's own global hooks."""

import sys
from types import CodeType, FrameType
from typing import Any

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
    """A frame of this code on the stack means that an optimizer is at its step."""
    _AROUND_A_STEP.add(code)


def steps_under_way() -> int:
    """How many optimizers are really at their steps: one that raised has no frame left, and told nobody."""
    frame: FrameType | None = sys._getframe(1)
    found = 0
    while frame is not None:
        found += frame.f_code in _AROUND_A_STEP
        frame = frame.f_back
    return found


def install(recorder: Recorder, probe: TorchProbe) -> None:
    """The pre-hook opens the optimizer phase (and the step, for a closure); the post-hook ends the step."""

    first = True

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        nonlocal first
        if recorder.on:
            try:
                if first:
                    first = False
                    note_step_function(sys._getframe(1).f_code)
                if recorder.optimizer_depth:
                    around = steps_under_way() - 1
                    if recorder.optimizer_depth > around:
                        recorder.drop_step(around)
                recorder.optimizer_begin(probe.index_of(optimizer))
            except Exception as error:
                recorder.broke("optimizer", error)

    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        try:
            if not recorder.awake:
                recorder.rested += 1
                if recorder.rested >= recorder.rest_steps:
                    recorder.wake()
            elif recorder.on:
                recorder.optimizer_steps += 1
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
