"""Loads what is meant for a GPU to where it really lies, and lets the script believe it on the GPU."""

import functools
from typing import Any

import torch

from scalewise.watch.redirect.redirected_calls import RedirectedCalls
from scalewise.watch.redirect.virtual_device import VirtualTensors, gpu_index

_MOST_DEEP = 6  # levels of dictionaries in a checkpoint


def install(calls: RedirectedCalls, virtual: VirtualTensors) -> None:
    """Wraps `torch.load`, and the method by which a function as `map_location` moves a storage."""
    original = torch.load

    @functools.wraps(original)
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        place = gpu_index(map_location, virtual.current)
        if isinstance(map_location, dict):
            # No checkpoint saved under redirection names a GPU, but a cluster's does.
            map_location = dict.fromkeys(map_location, virtual.real)
        elif place is not None:
            map_location = virtual.real
        else:
            return original(f, _from_gpus_to_cpu if map_location is None else map_location, *args, **kwargs)
        calls.redirect("torch.load")
        loaded = original(f, map_location, *args, **kwargs)
        if place is not None:
            calls.ask(f"cuda:{place}")
            _put(loaded, place, virtual, _MOST_DEEP)
        return loaded

    torch.load = load
    if virtual.real == "cpu":
        storage: Any = torch.UntypedStorage
        storage.cuda = lambda self, *args, **kwargs: self


def _from_gpus_to_cpu(storage: Any, location: str) -> Any:
    return storage if location.startswith("cuda") else None


def _put(value: Any, place: int, virtual: VirtualTensors, deep: int) -> None:
    if isinstance(value, torch.Tensor):
        virtual.put(value, place)
    elif deep and isinstance(value, (dict, list, tuple)):
        for one in value.values() if isinstance(value, dict) else value:
            _put(one, place, virtual, deep - 1)
