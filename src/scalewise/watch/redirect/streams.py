"""Stands in for events and streams of a GPU: on the CPU every call returns when it is done, so they only take times."""

import contextlib
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from scalewise.watch.crash import for_the_script
from scalewise.watch.redirect.redirected_calls import RedirectedCalls, stand_in


class Event:
    """An event that has happened as soon as it is recorded."""

    def __init__(self, *args: Any, enable_timing: bool = False, **kwargs: Any) -> None:
        self._timed = enable_timing or bool(args and args[0] is True)
        self._at_ns: int | None = None

    def record(self, stream: Any = None) -> None:
        """Takes the time now."""
        self._at_ns = time.perf_counter_ns()

    def elapsed_time(self, end_event: "Event") -> float:
        """The milliseconds between the two events."""
        if not (self._timed and end_event._timed):
            raise for_the_script(ValueError("Both events must be created with argument 'enable_timing=True'."))
        if self._at_ns is None or end_event._at_ns is None:
            raise for_the_script(ValueError("Both events must be recorded before calculating elapsed time."))
        return (end_event._at_ns - self._at_ns) * 1e-6

    def query(self) -> bool:
        """Returns True: the event has happened."""
        return True

    def synchronize(self) -> None:
        """Does nothing: there is nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Does nothing: no stream runs behind."""


class Stream:
    """A stream whose work is done in the order of the calls."""

    cuda_stream = 0

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.device = torch.device("cuda", device.index or 0 if isinstance(device, torch.device) else 0)
        self.device_index = self.device.index
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Does nothing: the other stream has no work left."""

    def wait_event(self, event: Any) -> None:
        """Does nothing: the event has happened."""

    def record_event(self, event: Any = None) -> Event:
        """Records an event now."""
        event = Event() if event is None else event
        event.record()
        return event  # type: ignore[no-any-return]

    def query(self) -> bool:
        """Returns True: all work is done."""
        return True

    def synchronize(self) -> None:
        """Does nothing: there is nothing to wait for."""

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        return None


@contextlib.contextmanager
def nothing_around(*args: Any, **kwargs: Any) -> Iterator[None]:
    """A context that does nothing, in place of a stream, a range or a profiler around some work."""
    yield


def install(calls: RedirectedCalls) -> None:
    """Replaces the classes, so that the script makes the stand-ins."""
    cuda: Any = torch.cuda
    the_stream = Stream()
    for owner in (cuda, cuda.streams):
        owner.Event, owner.Stream = _counted(calls, Event), _counted(calls, Stream)
    for name in ("current_stream", "default_stream"):
        stand_in(calls, cuda, name, lambda device=None: the_stream)
    if hasattr(torch, "accelerator"):
        stand_in(calls, torch.accelerator, "current_stream", lambda device=None: the_stream)
    for name in ("stream", "StreamContext"):
        stand_in(calls, cuda, name, nothing_around)
    stand_in(calls, cuda, "set_stream", lambda stream: None)
    stand_in(calls, cuda, "is_current_stream_capturing", lambda: False)
    _redirect_marks(calls)
    for name in ("CUDAGraph", "graph", "make_graphed_callables"):
        _refuse(calls, name)


def _counted(calls: RedirectedCalls, kind: type) -> type:
    """A subclass whose instances are counted; hooks may then be put on it."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        calls.redirect(f"torch.cuda.{kind.__name__}")
        kind.__init__(self, *args, **kwargs)  # type: ignore[misc]

    return type(kind.__name__, (kind,), {"__init__": __init__, "__module__": "torch.cuda", "__doc__": kind.__doc__})


def _redirect_marks(calls: RedirectedCalls) -> None:
    """Replaces ranges for a profiler that is not there."""
    cuda: Any = torch.cuda
    for name in ("range_push", "range_pop", "mark"):
        stand_in(calls, cuda.nvtx, name, lambda *args, **kwargs: 0)
    stand_in(calls, cuda.nvtx, "range", nothing_around)
    for name in ("start", "stop"):
        stand_in(calls, cuda.profiler, name, lambda: None)
    library = SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0)
    stand_in(calls, cuda, "cudart", lambda: library)


def _refuse(calls: RedirectedCalls, name: str) -> None:
    def refused(*args: Any, **kwargs: Any) -> Any:
        calls.miss(f"torch.cuda.{name}")
        raise for_the_script(RuntimeError(f"torch.cuda.{name} has nothing to stand in for it on the CPU"))

    setattr(torch.cuda, name, refused)
