"""Notes what DistributedDataParallel does: which backward passes synchronise, in how many buckets, what stays exposed.

The reducer calls its collectives from C++, out of reach of any wrapper; they are counted from the buckets that DDP
itself reports, once per forward pass whose backward will synchronise.
"""

import functools
import weakref
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from scalewise.watch.probe_torch import TorchProbe
from scalewise.watch.recorder import Recorder
from scalewise.watch.reducer import Reducer


def install(recorder: Recorder, probe: TorchProbe) -> None:
    """Wraps construction, forward and the broadcast of buffers."""
    reducers: weakref.WeakKeyDictionary[Any, Reducer] = weakref.WeakKeyDictionary()
    _wrap_init(recorder, probe, reducers)
    _wrap_forward(recorder, probe, reducers)
    _wrap_buffers(recorder)


def _wrap_init(recorder: Recorder, probe: TorchProbe, reducers: "weakref.WeakKeyDictionary[Any, Reducer]") -> None:
    original = DistributedDataParallel.__init__
    register = DistributedDataParallel.register_comm_hook

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if recorder.on:
            try:
                reducers[self] = Reducer(self)
                probe.wrapper = type(self).__name__
            except Exception as error:
                recorder.broke("DistributedDataParallel", error)

    @functools.wraps(register)
    def register_comm_hook(self: Any, state: object, hook: Any) -> None:
        register(self, state, hook)
        if self in reducers:
            reducers[self].communicates = False  # the hook does, through torch.distributed, where each call is seen

    DistributedDataParallel.__init__ = __init__  # type: ignore[method-assign]
    DistributedDataParallel.register_comm_hook = register_comm_hook  # type: ignore[method-assign]


def _wrap_forward(recorder: Recorder, probe: TorchProbe, reducers: "weakref.WeakKeyDictionary[Any, Reducer]") -> None:
    """Arms the reducer at a synchronising forward; the next backward that reaches its parameters reduces, once."""
    original: Any = DistributedDataParallel.forward

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.on and self.require_backward_grad_sync and torch.is_grad_enabled():
            try:
                reducer = reducers.get(self)
                if reducer is not None:
                    recorder.sync_expected()
                    reducer.arm(alone=len(reducers) == 1)
            except Exception as error:
                recorder.broke("DistributedDataParallel", error)
        return original(self, *args, **kwargs)

    def after_backward() -> None:
        alone = len(reducers) == 1
        for reducer in list(reducers.values()):
            if reducer.has_reduced(alone):
                if reducer.communicates:
                    recorder.reduces("all_reduce", reducer.buckets, reducer.bucket_bytes)
                if reducer.wants_reading():
                    probe.read_later(reducer)

    DistributedDataParallel.forward = forward  # type: ignore[method-assign]
    recorder.after_backward = after_backward


def _wrap_buffers(recorder: Recorder) -> None:
    """Wraps the Python caller of the broadcast of buffers (batch norm's running statistics), which is C++ itself."""
    original = getattr(DistributedDataParallel, "_sync_buffers", None)
    if original is None:
        return

    @functools.wraps(original)
    def _sync_buffers(self: Any) -> Any:
        if recorder.on:
            try:
                size_bytes = sum(buffer.numel() * buffer.element_size() for buffer in self.module.buffers())
                if size_bytes:
                    recorder.reduces("broadcast", 1, size_bytes)
            except Exception as error:
                recorder.broke("DistributedDataParallel", error)
        return original(self)

    DistributedDataParallel._sync_buffers = _sync_buffers  # type: ignore[method-assign]
