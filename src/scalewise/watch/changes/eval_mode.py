"""Puts a trained model that is called without gradients into evaluation mode for that call.

The first such inputs go through it in both modes, and the distance between the outputs is recorded.
"""

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from scalewise.records.changes import AxisValue, Declared
from scalewise.records.examination import MeasuredRow
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "eval_mode"
CHANGE = Declared()
BOTH_WAYS = 8  # inputs


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps `nn.Module.__call__` once more; modules inside others pass through."""
    learnt: weakref.WeakSet[nn.Module] = weakref.WeakSet()
    inside = False
    compared = 0

    def __call__(call: Any, self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside, compared
        if inside or not self.training:
            return call(self, *args, **kwargs)
        inside = True
        try:
            if torch.is_grad_enabled():
                learnt.update((self, *_inner(self)))
                return call(self, *args, **kwargs)
            if self not in learnt:
                return call(self, *args, **kwargs)
            recorder.intervene(NAME)
            before = None
            if compared < BOTH_WAYS:
                compared += 1
                with _leaving_no_trace(self):
                    before = _first_tensor(call(self, *args, **kwargs))
            with _evaluating(self):
                result = call(self, *args, **kwargs)
            _tell(recorder, before, _first_tensor(result))
            return result
        finally:
            inside = False

    seam(nn.Module, "__call__").around(__call__)


def _inner(module: nn.Module) -> tuple[nn.Module, ...]:
    """The module inside a wrapper, which a script may evaluate by itself; empty if there is none."""
    inner = getattr(module, "module", None)
    return (inner,) if isinstance(inner, nn.Module) else ()


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    layers = [one for one in module.modules() if one.training]
    for one in layers:
        one.training = False
    try:
        yield
    finally:
        for one in layers:
            one.training = True


@contextmanager
def _leaving_no_trace(module: nn.Module) -> Iterator[None]:
    """A context after which buffers and random states are what they were."""
    buffers = [(one, one.clone()) for one in module.buffers()]
    with torch.random.fork_rng():
        try:
            yield
        finally:
            for one, value in buffers:
                one.copy_(value)


def _first_tensor(result: Any) -> torch.Tensor | None:
    if isinstance(result, torch.Tensor):
        return result if result.is_floating_point() else None
    parts = result.values() if isinstance(result, Mapping) else result if isinstance(result, (tuple, list)) else ()
    return next((one for one in map(_first_tensor, parts) if one is not None), None)


def _tell(recorder: Recorder, before: torch.Tensor | None, after: torch.Tensor | None) -> None:
    if before is None or after is None or before.shape != after.shape or not after.numel():
        return
    length = float(after.double().norm())
    if length:
        apart = float((before.double() - after.double()).norm()) / length
        recorder.journal.row(MeasuredRow(NAME, "output", apart))
