"""Puts every collective that is called through torch.distributed on tape, and notices who looks at its result."""

import functools
import linecache
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from scalewise.records.rehearsal import SteeredRow
from scalewise.watch.examination.places import is_users_file
from scalewise.watch.hooks.collectives import KIND_OF
from scalewise.watch.hooks.forward import first_tensor
from scalewise.watch.recorder import Recorder
from scalewise.watch.rehearsal.group import bind
from scalewise.watch.rehearsal.tape import TapeRecorder

# What the first tensor argument is of the whole message: a shard of it, or all.
_SHARD_FIRST = ("reduce_scatter_tensor", "reduce_scatter", "all_gather")
_READS = ("item", "tolist", "__bool__", "__float__", "__int__", "__index__")
_LOCAL = ("barrier", "send", "isend", "send_object_list")  # give nothing back that another rank made


def install(recorder: Recorder, tape: TapeRecorder) -> None:
    """Wraps the functions, their handles and the reads of their results."""
    kinds: dict[int, str] = {}
    inside = [False]
    for name, kind in KIND_OF.items():
        original = getattr(dist, name, None)
        if original is not None:
            bind(name, _taped(tape, name, kind, original, inside, lambda kind, tensor: _keep(kinds, kind, tensor)))
    for read in _READS:
        _watch_read(recorder, read, kinds)


def _taped(
    tape: TapeRecorder,
    name: str,
    kind: str,
    original: Callable[..., Any],
    inside: list[bool],
    keep: Callable[[str, torch.Tensor], None],
) -> Callable[..., Any]:
    @functools.wraps(original)
    def taped(*args: Any, **kwargs: Any) -> Any:
        if inside[0]:
            return original(*args, **kwargs)
        tensor = first_tensor((args, kwargs), depth=4)
        ranks = _group_size(args, kwargs)
        size = 0 if tensor is None else tensor.numel() * tensor.element_size()
        number = tape.issue(kind, size * ranks if name in _SHARD_FIRST else size, ranks)
        inside[0] = True
        try:
            work = original(*args, **kwargs)
        finally:
            inside[0] = False
        if tensor is not None and name not in _LOCAL:
            keep(kind, tensor)
        if work is None or not hasattr(work, "wait"):
            tape.wait(number)
            return work
        return _Handle(tape, number, tensor)

    return taped


class _Handle(dist.Work):
    """Stands for a collective that was begun: done before it began, and waited for where the script does."""

    def __init__(self, tape: TapeRecorder, number: int, tensor: torch.Tensor | None) -> None:
        super().__init__()
        self._tape, self._number, self._tensor = tape, number, tensor

    def wait(self, timeout: Any = None) -> bool:
        """At once, but on tape."""
        self._tape.wait(self._number)
        return True

    def is_completed(self) -> bool:
        """Always."""
        return True

    def get_future(self) -> Any:
        """With the tensor as its own result."""
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result([self._tensor])
        return future


def _group_size(args: Any, kwargs: Any) -> int:
    for value in (*args, *kwargs.values()):
        if isinstance(value, dist.ProcessGroup):
            return value.size()
    return dist.get_world_size() if dist.is_initialized() else 1


def _keep(kinds: dict[int, str], kind: str, tensor: torch.Tensor) -> None:
    """The storage is marked until it is freed: what is read of it came from other ranks."""
    storage = tensor.untyped_storage()
    key = storage._cdata
    kinds[key] = kind
    weakref.finalize(storage, kinds.pop, key, None)


def _watch_read(recorder: Recorder, name: str, kinds: dict[int, str]) -> None:
    original = getattr(torch.Tensor, name)

    @functools.wraps(original)
    def read(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if kinds and type(self) is torch.Tensor and self.device.type != "meta":
            kind = kinds.get(self.untyped_storage()._cdata)
            if kind is not None:
                _tell(recorder, name, kind)
        return original(self, *args, **kwargs)

    setattr(torch.Tensor, name, read)


def _tell(recorder: Recorder, call: str, kind: str) -> None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not is_users_file(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return
    file, line = frame.f_code.co_filename, frame.f_lineno
    told = recorder.__dict__.setdefault("_steered", set())
    if (file, line) not in told:
        told.add((file, line))
        recorder.journal.row(SteeredRow(call, kind, file, line, linecache.getline(file, line).strip()[:200]))
