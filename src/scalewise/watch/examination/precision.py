"""Notes mixed precision: regions of autocast, and the calls of a scaler."""

import functools
from typing import Any

import torch
from torch.amp.autocast_mode import autocast
from torch.amp.grad_scaler import GradScaler

from scalewise.watch.examination.loop import Loop, loop_of
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.numbers import ObjectNumbers
from scalewise.watch.examination.tensors import number, readable


def install(notebook: Notebook) -> None:
    """Wraps the base classes, so that torch.cuda.amp's are seen, too. The scaler's step is noted when it is called."""
    loop, numbers = loop_of(notebook), ObjectNumbers()

    def on_scaler(scaler: GradScaler, call: str) -> None:
        known = numbers.of(scaler)
        index = numbers.give(scaler) if known is None else known
        notebook.note("scaler", call, index, _scale(loop, scaler))

    loop.on_scaler = on_scaler
    for name in ("scale", "unscale_", "update"):
        _see_call(loop, name)
    _see_autocast(notebook)


def _see_call(loop: Loop, name: str) -> None:
    """Notes the script's own calls: not `unscale_` inside the scaler's step, nor `scale` of each item of a list."""
    original = getattr(GradScaler, name)
    notebook = loop.notebook
    under_way = False

    @functools.wraps(original)
    def call(self: GradScaler, *args: Any, **kwargs: Any) -> Any:
        nonlocal under_way
        if under_way or loop.scaling or not notebook.on or not self._enabled:
            return original(self, *args, **kwargs)
        under_way = True
        try:
            result = original(self, *args, **kwargs)
        finally:
            under_way = False
        try:
            loop.on_scaler(self, name)
        except Exception as error:
            notebook.broke("scaler", error)
        return result

    setattr(GradScaler, name, call)


def _scale(loop: Loop, scaler: GradScaler) -> float | None:
    scale = scaler._scale
    if scale is None:
        return None
    return number(scale) if readable(scale, loop.early) else None


def _see_autocast(notebook: Notebook) -> None:
    original: Any = autocast.__enter__

    @functools.wraps(original)
    def enter(self: autocast) -> Any:
        result = original(self)
        try:
            if notebook.on and self._enabled and torch.is_grad_enabled():
                notebook.note("autocast", self.device, str(self.fast_dtype).removeprefix("torch."))
        except Exception as error:
            notebook.broke("autocast", error)
        return result

    autocast.__enter__ = enter  # type: ignore[method-assign]
