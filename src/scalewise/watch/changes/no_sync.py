"""Reduces gradients of a window in its last micro-batch only, as `no_sync()` around the others would.

`window`: training forward passes of each wrapper per optimizer step.
"""

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Guard, seam, step_hooks

NAME = "no_sync"
CHANGE = Declared(settings={"window": "whole"}, example="no_sync:window=4")


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Sets the flag that `no_sync` sets, in place of the script."""

    def tell(wanted: bool, was: bool) -> None:
        if not wanted:
            recorder.intervene(NAME)

    reduce_in_last(ChangeGuard(recorder, NAME), int(settings["window"]), tell)


def reduce_in_last(guard: Guard, window: int, tell: Callable[[bool, bool], None]) -> None:
    """Sets the flag before every training forward; it holds through the backward, up to the next forward or step.

    `tell` is called with what the flag is set to and what it was.
    """
    if window < 1:
        raise ValueError(f"a window of {window} micro-batches")
    passes: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # in the window so far

    def forward(call: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.training and torch.is_grad_enabled():
            made = passes[self] = passes.get(self, 0) + 1
            wanted = made % window == 0
            tell(wanted, self.require_backward_grad_sync)
            self.require_backward_grad_sync = wanted
        return call(self, *args, **kwargs)

    def reduce_the_rest(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        held = {id(one) for group in optimizer.param_groups for one in group["params"]}
        for wrapper, made in list(passes.items()):
            if made % window and any(id(one) in held for one in wrapper.parameters()):
                _reduce(wrapper)  # a window that ends early, at the end of an epoch

    def end_window(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for wrapper in list(passes):
            wrapper.require_backward_grad_sync = True
        passes.clear()

    seam(DistributedDataParallel, "forward").around(forward)
    step_hooks.before(guard, reduce_the_rest)
    step_hooks.after(guard, end_window)


def _reduce(wrapper: Any) -> None:
    """Reduces as the reducer would have done in the last backward of this short window."""
    for parameter in wrapper.parameters():
        if parameter.grad is not None:
            torch.distributed.all_reduce(parameter.grad, group=wrapper.process_group)
            parameter.grad /= wrapper.process_group.size()
