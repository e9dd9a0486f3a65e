"""Questions about the memory of a GPU: nothing here can answer them, so they get a number and are listed as unseen."""

import os
import warnings
from collections import defaultdict
from typing import Any

import torch

from scalewise.watch.redirect.account import Account, stand_in

_NUMBERS = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached",
    "max_memory_cached",
)  # fmt: skip
_ORDERS = (
    "reset_peak_memory_stats", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
    "reset_max_memory_cached", "set_per_process_memory_fraction",
)  # fmt: skip


def install(account: Account) -> None:
    """The same names in torch.cuda, torch.cuda.memory and torch.accelerator."""
    # DataLoader(pin_memory=True) means something where the script is meant to run.
    warnings.filterwarnings("ignore", message="'pin_memory' argument is set as true but no accelerator")
    places: tuple[Any, ...] = (torch.cuda, torch.cuda.memory, getattr(torch, "accelerator", None))
    for owner in filter(None, places):
        for name in _NUMBERS:
            stand_in(account, owner, name, lambda *args, **kwargs: 0, unseen=True)
        for name in _ORDERS:
            stand_in(account, owner, name, lambda *args, **kwargs: None)
        stand_in(account, owner, "memory_stats", lambda *args, **kwargs: defaultdict(int), unseen=True)
        stand_in(account, owner, "memory_summary", lambda *args, **kwargs: "", unseen=True)
        stand_in(account, owner, "memory_snapshot", lambda *args, **kwargs: [], unseen=True)
        stand_in(account, owner, "mem_get_info", lambda *args, **kwargs: _free_and_total(), unseen=True)


def _free_and_total() -> tuple[int, int]:
    page = os.sysconf("SC_PAGE_SIZE")
    return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")
