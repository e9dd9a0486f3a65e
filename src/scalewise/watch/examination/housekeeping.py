"""Notes when the script tidies up memory itself: empties the caching allocator or collects Python's garbage."""

import functools
import gc
import sys
from time import perf_counter_ns
from typing import Any

import torch

from scalewise.watch.examination.notebook import Notebook

EMPTY_CACHE, COLLECT = "torch.cuda.empty_cache", "gc.collect"


def install(notebook: Notebook) -> None:
    """Wraps the functions wherever torch has bound them."""
    owners: tuple[Any, ...] = (torch.cuda, torch.cuda.memory)
    _see(notebook, owners, "empty_cache", EMPTY_CACHE)
    _see(notebook, (torch.cuda,), "ipc_collect", "torch.cuda.ipc_collect")
    if hasattr(getattr(torch, "accelerator", None), "empty_cache"):
        _see(notebook, (torch.accelerator, torch.accelerator.memory), "empty_cache", "torch.accelerator.empty_cache")
    _see(notebook, (gc,), "collect", COLLECT)


def _see(notebook: Notebook, owners: tuple[Any, ...], name: str, called: str) -> None:
    original = getattr(owners[0], name)

    @functools.wraps(original)
    def tidy(*args: Any, **kwargs: Any) -> Any:
        began_ns = perf_counter_ns()
        result = original(*args, **kwargs)
        try:
            # torch itself collects garbage around a compilation or the capture of a graph.
            by_torch = str(sys._getframe(1).f_globals.get("__name__", "")).startswith("torch.")
            if notebook.on and not by_torch:
                notebook.note("housekeeping", called, perf_counter_ns() - began_ns)
        except Exception as error:
            notebook.broke("housekeeping", error)
        return result

    for owner in owners:
        setattr(owner, name, tidy)
