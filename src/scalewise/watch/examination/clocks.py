"""Notes when the script itself reads a clock, waits for its device, or tidies up memory: what it does for its times.

A replaced clock of the `time` module behaves as before: it does not become a method when it is kept in a class, it can
be pickled by its name, and it returns what it returned. Reads of clocks by libraries are left out.
"""

import functools
import gc
import os
import sys
import time
import timeit
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import torch

from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.seams import Given, Looks, caller, seam

CLOCKS = tuple(
    f"{name}{unit}" for name in ("time", "perf_counter", "monotonic", "process_time") for unit in ("", "_ns")
)
_WATCHER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
EMPTY_CACHE, COLLECT = "torch.cuda.empty_cache", "gc.collect"
MOST_AT_ONE_PLACE = 20_000  # a loop that waits for a moment reads the clock all the time


def install(notebook: Notebook) -> None:
    """Replaces the clocks, and the waits of torch, where modules look them up when they are called."""
    module: Any = time
    for name in CLOCKS:
        setattr(module, name, _Clock(notebook, getattr(time, name)))
    timeit.default_timer = time.perf_counter
    event: Any = torch.cuda.Event
    for kind in (torch.cuda.Stream, event):
        _see_waits(notebook, _defining(kind, "synchronize"), f"{kind.__name__}.synchronize")
    for name in ("cuda", "accelerator"):
        if hasattr(torch, name):
            _see_waits(notebook, getattr(torch, name), f"{name}.synchronize")

    def recorded(args: tuple[Any, ...], kwargs: Given, result: Any) -> None:
        frame = caller()
        if notebook.places.of_user(frame.f_code):
            place = notebook.places.number(frame.f_code, frame.f_lineno)
            notebook.note("clock", "Event.record", place=place)

    seam(_defining(event, "record"), "record").after(notebook, recorded)
    _see_housekeeping(notebook)


class _Clock:
    """A function of the `time` module that notes who read it."""

    def __init__(self, notebook: Notebook, read: Callable[[], Any]) -> None:
        self._notebook, self._read = notebook, read
        self._called = f"time.{read.__name__}"
        self._left: dict[int, int] = {}
        functools.update_wrapper(self, read)
        self.__self__ = time

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        value = self._read(*args, **kwargs)
        notebook = self._notebook
        if notebook.places.of_user(sys._getframe(1).f_code):
            self._note()
        return value

    def _note(self) -> None:
        try:
            place = self._notebook.places.caller(2)
            left = self._left.get(place, MOST_AT_ONE_PLACE)
            if left > 0 and self._notebook.on:
                self._left[place] = left - 1
                self._notebook.note("clock", self._called, place=place)
        except Exception as error:
            self._notebook.broke("clock", error)

    def __repr__(self) -> str:
        return repr(self._read)

    def __reduce__(self) -> str:
        return self._read.__name__


def _defining(kind: type, name: str) -> type:
    """The class that defines a method: stand-ins for a stream may be of that class."""
    return next(base for base in kind.__mro__ if name in vars(base))


def _see_waits(notebook: Notebook, owner: Any, called: str) -> None:
    """Notes a wait for the device, a library's too, which waits on the script's behalf; not the watcher's own."""

    def synchronize(args: tuple[Any, ...], kwargs: Given, result: Any) -> None:
        if not caller().f_code.co_filename.startswith(_WATCHER):
            notebook.note("device_sync", called)

    seam(owner, "synchronize").after(notebook, synchronize)


def _see_housekeeping(notebook: Notebook) -> None:
    """Looks at the functions wherever torch has bound them."""
    _see_tidying(notebook, (torch.cuda, torch.cuda.memory), "empty_cache", EMPTY_CACHE)
    _see_tidying(notebook, (torch.cuda,), "ipc_collect", "torch.cuda.ipc_collect")
    if hasattr(getattr(torch, "accelerator", None), "empty_cache"):
        owners = (torch.accelerator, torch.accelerator.memory)
        _see_tidying(notebook, owners, "empty_cache", "torch.accelerator.empty_cache")
    _see_tidying(notebook, (gc,), "collect", COLLECT)


def _see_tidying(notebook: Notebook, owners: tuple[Any, ...], name: str, called: str) -> None:
    def tidies(args: tuple[Any, ...], kwargs: Given) -> Looks:
        # torch itself collects garbage around a compilation or the capture of a graph.
        if not str(caller().f_globals.get("__name__", "")).startswith("torch."):
            began_ns = perf_counter_ns()
            yield
            notebook.note("housekeeping", called, perf_counter_ns() - began_ns)

    seam(owners[0], name, also=owners[1:]).during(notebook, tidies)
