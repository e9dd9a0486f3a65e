"""Sees the step of every optimizer through torch's own global hooks."""

from typing import Any

from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from scalewise.watch.probe_torch import TorchProbe
from scalewise.watch.recorder import REST_STEPS, Recorder


def install(recorder: Recorder, probe: TorchProbe) -> None:
    """The pre-hook opens the optimizer phase (and the step, for a closure); the post-hook ends the step."""

    def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if recorder.on:
            try:
                recorder.optimizer_begin(probe.index_of(optimizer))
            except Exception as error:
                recorder.broke("optimizer", error)

    def after(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not recorder.awake:
            recorder.rested += 1
            if recorder.rested >= REST_STEPS:
                recorder.wake()
        elif recorder.on:
            try:
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
