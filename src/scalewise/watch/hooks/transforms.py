"""Notes when torch.func begins to transform a function: a step of such a loop begins there, before any module call."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._functorch import eager_transforms

from scalewise.watch.journal import now_ns
from scalewise.watch.recorder import Recorder

transform_level = torch._C._functorch.maybe_current_level


def install(recorder: Recorder) -> None:
    """Wraps the functions that enter a transform; torch.compile calls torch's own and never these."""
    places: dict[str, Any] = {
        "_grad_increment_nesting": eager_transforms,
        "_vmap_increment_nesting": sys.modules["torch._functorch.vmap"],  # torch._functorch.vmap is a function
    }
    for name, module in places.items():
        if hasattr(module, name):
            setattr(module, name, _watched(recorder, getattr(module, name)))


def _watched(recorder: Recorder, original: Callable[..., int]) -> Callable[..., int]:
    this_thread, main_thread = threading.get_ident, threading.main_thread().ident

    def enter(*args: Any, **kwargs: Any) -> int:
        if recorder.awake and not recorder.open and transform_level() is None and this_thread() == main_thread:
            recorder.transform_ns = now_ns()
        return original(*args, **kwargs)

    enter.__wrapped__ = original  # type: ignore[attr-defined]
    return enter
