"""Notes every step of a learning-rate scheduler, except the one its constructor makes."""

import functools
import sys
from typing import Any

import torch
from torch.optim import lr_scheduler

from scalewise.watch.examination.loop import Loop, loop_of
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.numbers import ObjectNumbers
from scalewise.watch.examination.tensors import number

_Base: Any = lr_scheduler.LRScheduler


def install(notebook: Notebook) -> None:
    """Wraps `step` in every class of torch's that has its own; schedulers made of schedulers count once."""
    loop, numbers = loop_of(notebook), ObjectNumbers()
    under_way = False

    def watched(original: Any) -> Any:
        @functools.wraps(original)
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal under_way
            if under_way or not notebook.on or _constructs():
                return original(self, *args, **kwargs)
            under_way = True
            try:
                result = original(self, *args, **kwargs)
            finally:
                under_way = False
            try:
                _note(loop, numbers, self)
            except Exception as error:
                notebook.broke("scheduler", error)
            return result

        return step

    for kind in list(vars(lr_scheduler).values()):
        if isinstance(kind, type) and issubclass(kind, _Base) and "step" in vars(kind):
            type.__setattr__(kind, "step", watched(vars(kind)["step"]))


def _constructs() -> bool:
    """Returns whether a scheduler is being made: its constructor steps once, through this function."""
    caller = sys._getframe(2)
    return caller.f_code.co_name in ("_initial_step", "__init__") and caller.f_code.co_filename == lr_scheduler.__file__


def _note(loop: Loop, numbers: ObjectNumbers, scheduler: Any) -> None:
    known = numbers.of(scheduler)
    index = numbers.give(scheduler) if known is None else known
    optimizer = scheduler.optimizer
    loop.notebook.note("schedule", index, loop.optimizer(optimizer), _rate(optimizer))


def _rate(optimizer: Any) -> float:
    """The learning rate; not a number if it lies on a device, as reading it is not worth waiting for."""
    rate = optimizer.param_groups[0]["lr"]
    if isinstance(rate, torch.Tensor):
        return number(rate) if rate.device.type == "cpu" else float("nan")
    return float(rate)
