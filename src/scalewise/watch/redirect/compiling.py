"""Runs compiled code uncompiled: what the compiler makes for a GPU cannot be seen on the CPU anyway."""

import functools
from typing import Any

import torch

from scalewise.watch.redirect.redirected_calls import RedirectedCalls


def install(calls: RedirectedCalls) -> None:
    """Wraps torch.compile to pass its own option for being switched off."""
    original = torch.compile

    @functools.wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        calls.redirect("torch.compile")
        calls.miss("torch.compile")
        return original(*args, **{**kwargs, "disable": True})

    torch.compile = compile
