"""Runs mixed precision meant for a GPU on the CPU, in the dtype that the GPU would have taken."""

import functools
import sys
from typing import Any

import torch
from torch.amp.autocast_mode import autocast
from torch.amp.grad_scaler import GradScaler

from scalewise.watch.redirect.redirected_calls import RedirectedCalls, asked_inside

_QUESTIONS = ("is_autocast_enabled", "get_autocast_dtype", "is_autocast_available")


def install(calls: RedirectedCalls) -> None:
    """Redirects autocast, the scaler, questions about them, and decorators; torch.cuda.amp uses the same classes."""
    _redirect_autocast(calls)
    _redirect_scaler(calls)
    _redirect_questions(calls)
    for name in ("custom_fwd", "custom_bwd"):
        _redirect_decorator(calls, name)


def _redirect_autocast(calls: RedirectedCalls) -> None:
    original: Any = autocast.__init__

    @functools.wraps(original)
    def __init__(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if str(device_type).partition(":")[0] == "cuda":
            calls.ask("cuda")
            calls.redirect("torch.autocast")
            # The CPU's own default would be bfloat16.
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
        original(self, device_type, dtype, *args, **kwargs)

    autocast.__init__ = __init__  # type: ignore[method-assign]


def _redirect_scaler(calls: RedirectedCalls) -> None:
    original: Any = GradScaler.__init__

    @functools.wraps(original)
    def __init__(self: Any, device: str = "cuda", *args: Any, **kwargs: Any) -> None:
        if str(device).partition(":")[0] == "cuda":
            calls.ask("cuda")
            calls.redirect("torch.amp.GradScaler")
            device = "cpu"
        original(self, device, *args, **kwargs)

    GradScaler.__init__ = __init__  # type: ignore[method-assign]


def _redirect_questions(calls: RedirectedCalls) -> None:
    """Answers which autocast is on: what the script asks about "cuda" is answered for the CPU."""

    def redirected(original: Any) -> Any:
        @functools.wraps(original)
        def ask(*args: Any, **kwargs: Any) -> Any:
            if asked_inside(sys._getframe(1).f_code):
                return original(*args, **kwargs)
            if not args and not kwargs and original.__name__ == "is_autocast_enabled":
                args = ("cuda",)  # what it means without a device
            named = {key: "cpu" if value == "cuda" else value for key, value in kwargs.items()}
            return original(*("cpu" if value == "cuda" else value for value in args), **named)

        return ask

    for name in _QUESTIONS:
        original = getattr(torch, name, None)
        if original is not None:
            setattr(torch, name, redirected(original))
    torch.get_autocast_gpu_dtype = lambda: torch.get_autocast_cpu_dtype()


def _redirect_decorator(calls: RedirectedCalls, name: str) -> None:
    original = getattr(torch.amp, name)

    @functools.wraps(original)
    def decorator(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device_type") == "cuda":
            calls.redirect(f"torch.amp.{name}")
            kwargs = {**kwargs, "device_type": "cpu"}
        return original(*args, **kwargs)

    setattr(torch.amp, name, decorator)
