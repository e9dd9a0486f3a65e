"""Sees the outermost module call of a training step: its beginning, and how many samples go in."""

import threading
from typing import Any

import torch
from torch import nn

from scalewise.records.events import FORWARD
from scalewise.watch.probe_torch import TorchProbe
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder, probe: TorchProbe) -> None:
    """Wraps `nn.Module.__call__`: one test for the modules inside, all the work for the one outside."""
    original = nn.Module.__call__
    grad_enabled = torch.is_grad_enabled
    this_thread, main_thread = threading.get_ident, threading.main_thread().ident
    inside = False

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        # Recomputation inside backward belongs to backward; other threads (DataParallel's) to the call they serve.
        if inside or recorder.backward_depth or not recorder.on or this_thread() != main_thread:
            return original(self, *args, **kwargs)
        inside = True
        try:
            try:
                if grad_enabled() and self.training:
                    if not recorder.open:
                        if not recorder.started:
                            probe.choose_clock(self)
                        recorder.open_step()
                    try:
                        rows = args[0].size(0)
                    except (IndexError, AttributeError, TypeError):
                        rows = rows_of(args, kwargs)
                    recorder.stamp(FORWARD)
                    recorder.value(rows)
                else:
                    recorder.evaluating()
            except Exception as error:
                recorder.broke("forward", error)
            return original(self, *args, **kwargs)
        finally:
            inside = False

    nn.Module.__call__ = __call__  # type: ignore[method-assign]


def rows_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """The first dimension of the first tensor among the arguments, which is the batch by custom."""
    tensor = first_tensor((args, kwargs), depth=5)
    if tensor is None or tensor.dim() == 0:
        return None
    return int(tensor.size(0))


def first_tensor(values: Any, depth: int) -> torch.Tensor | None:
    """Depth-first through tuples, lists and dictionaries, as far down as batches are usually nested."""
    if isinstance(values, torch.Tensor):
        return values
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, (tuple, list)):
        return None
    if depth:
        for value in values:
            found = first_tensor(value, depth - 1)
            if found is not None:
                return found
    return None
