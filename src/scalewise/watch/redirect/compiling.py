"""Runs compiled code uncompiled: what the compiler makes for a GPU cannot be seen on the CPU anyway."""

import functools
from typing import Any

import torch

from scalewise.watch.redirect.redirected_calls import Account


def install(account: Account) -> None:
    """Wraps torch.compile to pass its own option for being switched off."""
    original = torch.compile

    @functools.wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        account.redirect("torch.compile")
        account.miss("torch.compile")
        return original(*args, **{**kwargs, "disable": True})

    torch.compile = compile
