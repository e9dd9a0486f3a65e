"""Runs mixed precision and compiled code meant for a GPU on the CPU, in the dtype that the GPU would have taken."""

from typing import Any

import torch
from torch.amp.autocast_mode import autocast
from torch.amp.grad_scaler import GradScaler

from scalewise.watch.redirect.redirected_calls import RedirectedCalls, asked_inside
from scalewise.watch.seams import caller, seam, seams

_QUESTIONS = ("is_autocast_enabled", "get_autocast_dtype", "is_autocast_available")


def install(calls: RedirectedCalls, on_cpu: bool) -> None:
    """Redirects compilation; on the CPU also autocast, the scaler, questions about them, and decorators.

    `torch.cuda.amp` uses the same classes.
    """

    def compile_(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        calls.redirect("torch.compile")
        calls.miss("torch.compile")
        # By its own option for being switched off: what it makes for a GPU cannot be seen on the CPU anyway.
        return call(*args, **{**kwargs, "disable": True})

    seam(torch, "compile").around(compile_)
    if on_cpu:
        _redirect_autocast(calls)
        _redirect_scaler(calls)
        _redirect_questions()
        for name in ("custom_fwd", "custom_bwd"):
            _redirect_decorator(calls, name)


def _redirect_autocast(calls: RedirectedCalls) -> None:
    def __init__(call: Any, self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if str(device_type).partition(":")[0] == "cuda":
            calls.ask("cuda")
            calls.redirect("torch.autocast")
            # The CPU's own default would be bfloat16.
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
        call(self, device_type, dtype, *args, **kwargs)

    seam(autocast, "__init__").around(__init__)


def _redirect_scaler(calls: RedirectedCalls) -> None:
    def __init__(call: Any, self: Any, device: str = "cuda", *args: Any, **kwargs: Any) -> None:
        if str(device).partition(":")[0] == "cuda":
            calls.ask("cuda")
            calls.redirect("torch.amp.GradScaler")
            device = "cpu"
        call(self, device, *args, **kwargs)

    seam(GradScaler, "__init__").around(__init__)


def _redirect_questions() -> None:
    """Answers which autocast is on: what the script asks about "cuda" is answered for the CPU."""

    def redirected(name: str) -> Any:
        def ask(call: Any, /, *args: Any, **kwargs: Any) -> Any:
            if asked_inside(caller().f_code):
                return call(*args, **kwargs)
            if not args and not kwargs and name == "is_autocast_enabled":
                args = ("cuda",)  # what it means without a device
            named = {key: "cpu" if value == "cuda" else value for key, value in kwargs.items()}
            return call(*("cpu" if value == "cuda" else value for value in args), **named)

        return ask

    for name, question in seams(torch, _QUESTIONS).items():
        question.around(redirected(name))
    seam(torch, "get_autocast_gpu_dtype").replace(lambda: torch.get_autocast_cpu_dtype())


def _redirect_decorator(calls: RedirectedCalls, name: str) -> None:
    def decorator(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device_type") == "cuda":
            calls.redirect(f"torch.amp.{name}")
            kwargs = {**kwargs, "device_type": "cpu"}
        return call(*args, **kwargs)

    seam(torch.amp, name).around(decorator)
