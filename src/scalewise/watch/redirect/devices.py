"""Answers questions about GPUs and calls that control them: the script finds as many as stand in for them.

Of their memory, the bytes of stand-in devices are counted; all else cannot be answered, gets a number and is listed as
unseen.
"""

import os
import warnings
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import torch

from scalewise.watch.redirect.redirected_calls import RedirectedCalls, answer_outside, stand_in
from scalewise.watch.redirect.virtual_device import Held, VirtualTensors, gpu_index
from scalewise.watch.seams import seam

NAME = "CPU in place of a GPU"
CAPABILITY = (8, 0)  # has bfloat16
# A plain process may start its ranks itself, one per GPU, or spread its model over two.
GPUS_OF_A_PLAIN_PROCESS = 2

_SAYS_NOTHING = (
    "synchronize", "init", "empty_cache", "ipc_collect", "manual_seed", "manual_seed_all", "seed", "seed_all",
    "set_sync_debug_mode",
)  # fmt: skip
_NUMBERS = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached",
    "max_memory_cached",
)  # fmt: skip
_ORDERS = (
    "reset_peak_memory_stats", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
    "reset_max_memory_cached", "set_per_process_memory_fraction",
)  # fmt: skip
_FIGURES = ("utilization", "temperature", "power_draw", "clock_rate", "memory_usage", "device_memory_used")


# With one GPU for several: the number of the GPU that was asked becomes that of the real one.
_OF_ONE_GPU = (
    "synchronize", "get_device_name", "get_device_capability", "get_device_properties", "get_rng_state",
    "current_stream", "default_stream", "mem_get_info", *_FIGURES,
)  # fmt: skip


def install(calls: RedirectedCalls, virtual: VirtualTensors, count: int) -> None:
    """Replaces functions of torch.cuda and torch.accelerator, so that the script has `count` GPUs."""
    cuda: Any = torch.cuda

    def set_device(device: Any) -> None:
        place = gpu_index(device, virtual.current)
        if place is not None:
            calls.ask(f"cuda:{place}")
            virtual.current = place

    for name, answer in {
        "is_available": True, "is_initialized": True, "device_count": count, "is_bf16_supported": True,
    }.items():  # fmt: skip
        answer_outside(calls, cuda, name, lambda *args, answer=answer, **kwargs: answer)
    answer_outside(calls, cuda, "current_device", lambda: virtual.current)
    cuda.device = _device_context(calls, virtual)
    _redirect_default_device(calls, virtual)
    _answer_for_memory(calls, virtual)
    if virtual.real != "cpu":
        _share_one_gpu(calls, virtual, set_device, count)
        return
    for name in _SAYS_NOTHING:
        stand_in(calls, cuda, name, _nothing)
    for name in _FIGURES:
        stand_in(calls, cuda, name, lambda *args, **kwargs: 0, unseen=True)
    stand_in(calls, cuda, "set_device", set_device)
    stand_in(calls, cuda, "get_device_name", lambda device=None: NAME)
    stand_in(calls, cuda, "get_device_capability", lambda device=None: CAPABILITY)
    stand_in(calls, cuda, "get_device_properties", lambda device=None: properties())
    stand_in(calls, cuda, "can_device_access_peer", lambda device, peer_device: True)
    _redirect_random_states(calls, count)
    _redirect_accelerator(calls, virtual, set_device, count)


def _share_one_gpu(calls: RedirectedCalls, virtual: VirtualTensors, set_device: Any, count: int) -> None:
    """Lets the one real GPU answer and act for all."""
    cuda: Any = torch.cuda
    for name in _OF_ONE_GPU:
        original = getattr(cuda, name, None)
        answer_outside(calls, cuda, name, lambda device=None, original=original: original(virtual.real))
    answer_outside(calls, cuda, "set_device", set_device)
    answer_outside(calls, cuda, "can_device_access_peer", lambda device, peer_device: True)
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is not None:
        answer_outside(calls, accelerator, "device_count", lambda: count)
        for name in ("current_device_index", "current_device_idx"):
            answer_outside(calls, accelerator, name, lambda: virtual.current)
        for name in ("set_device_index", "set_device_idx"):
            answer_outside(calls, accelerator, name, set_device)
        answer_outside(calls, accelerator, "synchronize", lambda device=None: cuda.synchronize())


def gpu_count() -> int:
    """The number of GPUs: as many as there are ranks here."""
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    return int(ranks) if ranks.isdecimal() else GPUS_OF_A_PLAIN_PROCESS


def properties() -> SimpleNamespace:
    """The properties of the machine that stands in."""
    total_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return SimpleNamespace(
        name=NAME,
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        total_memory=total_bytes,
        multi_processor_count=os.cpu_count() or 1,
    )


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _redirect_random_states(calls: RedirectedCalls, count: int) -> None:
    """Keeps random states apart from the CPU's generator: what is read can be written back, and changes nothing."""
    cuda: Any = torch.cuda
    state = torch.default_generator.get_state().clone()
    stand_in(calls, cuda, "get_rng_state", lambda device=None: state.clone())
    stand_in(calls, cuda, "get_rng_state_all", lambda: [state.clone() for _ in range(count)])
    stand_in(calls, cuda, "initial_seed", torch.initial_seed)
    for name in ("set_rng_state", "set_rng_state_all"):
        stand_in(calls, cuda, name, _nothing)
    torch.cuda.random.get_rng_state = cuda.get_rng_state
    torch.cuda.random.set_rng_state = cuda.set_rng_state


def _device_context(calls: RedirectedCalls, virtual: VirtualTensors) -> type:
    class device:
        """A context in which a device is the current one, as in `with torch.cuda.device(1):`."""

        def __init__(self, device: Any) -> None:
            self.idx = gpu_index(device, virtual.current)

        def __enter__(self) -> None:
            calls.redirect("torch.cuda.device")
            self._before = virtual.current
            if self.idx is not None:
                calls.ask(f"cuda:{self.idx}")
                virtual.current = self.idx

        def __exit__(self, *_: object) -> None:
            virtual.current = self._before

    return device


def _redirect_accelerator(calls: RedirectedCalls, virtual: VirtualTensors, set_device: Any, count: int) -> None:
    accelerator: Any = getattr(torch, "accelerator", None)
    if accelerator is None:
        return

    def current(check_available: bool = False) -> torch.device:
        calls.ask("cuda")
        return torch.device("cuda")

    answer_outside(calls, accelerator, "is_available", lambda: True)
    answer_outside(calls, accelerator, "device_count", lambda: count)
    answer_outside(calls, accelerator, "current_accelerator", current)
    for name in ("current_device_index", "current_device_idx"):
        answer_outside(calls, accelerator, name, lambda: virtual.current)
    for name in ("set_device_index", "set_device_idx"):
        stand_in(calls, accelerator, name, set_device)
    for name in ("synchronize", "empty_cache"):
        stand_in(calls, accelerator, name, _nothing)


def _redirect_default_device(calls: RedirectedCalls, virtual: VirtualTensors) -> None:
    """Redirects `torch.set_default_device` and `with torch.device(...)`: one class, which C++ makes by name."""
    from torch.utils import _device

    def __init__(call: Any, self: Any, device: Any) -> None:
        if gpu_index(device, virtual.current) is not None:
            calls.ask(str(device))
            calls.redirect("torch.set_default_device")
            device = virtual.real
        call(self, device)

    seam(_device.DeviceContext, "__init__").around(__init__)


# ---- memory


def _answer_for_memory(calls: RedirectedCalls, virtual: VirtualTensors) -> None:
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
