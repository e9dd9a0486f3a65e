"""Answers questions about the memory of a GPU: bytes of stand-in devices are counted; all else cannot be answered.

What cannot be answered gets a number and is listed as unseen.
"""

import os
import warnings
from collections import defaultdict
from typing import Any

import torch

from scalewise.watch.redirect.held import Held
from scalewise.watch.redirect.redirected_calls import RedirectedCalls, answer_outside, stand_in
from scalewise.watch.redirect.virtual_device import VirtualTensors, gpu_index

_NUMBERS = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached",
    "max_memory_cached",
)  # fmt: skip
_ORDERS = (
    "reset_peak_memory_stats", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
    "reset_max_memory_cached", "set_per_process_memory_fraction",
)  # fmt: skip


def install(calls: RedirectedCalls, virtual: VirtualTensors) -> None:
    """Replaces the same names in torch.cuda, torch.cuda.memory and torch.accelerator."""
    # DataLoader(pin_memory=True) makes sense on the GPU that the script is written for.
    warnings.filterwarnings("ignore", message="'pin_memory' argument is set as true but no accelerator")
    places: tuple[Any, ...] = (torch.cuda, torch.cuda.memory, getattr(torch, "accelerator", None))
    for owner in filter(None, places):
        if virtual.held is not None:
            _count(calls, owner, virtual, virtual.held)
            continue
        for name in _NUMBERS:
            stand_in(calls, owner, name, lambda *args, **kwargs: 0, unseen=True)
        for name in _ORDERS:
            stand_in(calls, owner, name, lambda *args, **kwargs: None)
        stand_in(calls, owner, "memory_stats", lambda *args, **kwargs: defaultdict(int), unseen=True)
        stand_in(calls, owner, "memory_summary", lambda *args, **kwargs: "", unseen=True)
        stand_in(calls, owner, "memory_snapshot", lambda *args, **kwargs: [], unseen=True)
        stand_in(calls, owner, "mem_get_info", lambda *args, **kwargs: _free_and_total(), unseen=True)


def _count(calls: RedirectedCalls, owner: Any, virtual: VirtualTensors, held: Held) -> None:
    """Answers what an allocator for each device would; it would keep no spare memory."""

    def place(device: Any = None, device_index: Any = None) -> int:
        device = device_index if device is None else device
        index = gpu_index("cuda" if device is None else device, virtual.current)
        return virtual.current if index is None else index

    def stats(device: Any = None) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for kind in ("allocated_bytes.all", "reserved_bytes.all"):
            found[f"{kind}.current"], found[f"{kind}.peak"] = held.now(place(device)), held.peak(place(device))
        return found

    for name in _NUMBERS:
        ask = held.peak if name.startswith("max") else held.now
        answer_outside(calls, owner, name, lambda *args, ask=ask, **kwargs: ask(place(*args, **kwargs)))
    for name in _ORDERS:
        if name.startswith("reset"):
            answer_outside(calls, owner, name, lambda *args, **kwargs: held.forget_peak(place(*args, **kwargs)))
    answer_outside(calls, owner, "memory_stats", stats)


def _free_and_total() -> tuple[int, int]:
    page = os.sysconf("SC_PAGE_SIZE")
    return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")
