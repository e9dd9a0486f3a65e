"""Notes when the script itself reads a clock or waits for its device; reads by libraries are left out.

A replaced clock of the `time` module behaves as before: it does not become a method when it is kept in a class, it can
be pickled by its name, and it returns what it returned.
"""

import functools
import os
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

import torch

from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.notebook import Notebook

CLOCKS = tuple(
    f"{name}{unit}" for name in ("time", "perf_counter", "monotonic", "process_time") for unit in ("", "_ns")
)
_WATCHER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
MOST_AT_ONE_PLACE = 20_000  # a loop that waits for a moment reads the clock all the time


def install(notebook: Notebook) -> None:
    """Replaces the clocks, and the waits of torch, where modules look them up when they are called."""
    module: Any = time
    for name in CLOCKS:
        setattr(module, name, _Clock(notebook, getattr(time, name)))
    timeit.default_timer = time.perf_counter
    for kind in (torch.cuda.Stream, torch.cuda.Event):
        _after(kind, "synchronize", functools.partial(_waited, notebook, f"{kind.__name__}.synchronize"))
    _after(torch.cuda.Event, "record", functools.partial(_recorded, notebook))
    for name in ("cuda", "accelerator"):
        if hasattr(torch, name):
            _after(getattr(torch, name), "synchronize", functools.partial(_waited, notebook, f"{name}.synchronize"))


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


def _after(owner: Any, name: str, note: Callable[[], None]) -> None:
    if isinstance(owner, type):  # the class that defines it: stand-ins for a stream may be of that class
        owner = next(base for base in owner.__mro__ if name in vars(base))
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        note()
        return result

    setattr(owner, name, wrapped)


def _waited(notebook: Notebook, call: str) -> None:
    """Notes a wait for the device, a library's too, which waits on the script's behalf; not the watcher's own."""
    try:
        if notebook.on and not sys._getframe(2).f_code.co_filename.startswith(_WATCHER):
            notebook.note("device_sync", call)
    except Exception as error:
        notebook.broke("synchronize", error)


def _recorded(notebook: Notebook) -> None:
    try:
        place = notebook.places.caller(2)
        if place != NOWHERE and notebook.on:
            notebook.note("clock", "Event.record", place=place)
    except Exception as error:
        notebook.broke("event", error)
