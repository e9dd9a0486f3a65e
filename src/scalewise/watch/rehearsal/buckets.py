"""Puts the buckets of DistributedDataParallel on tape: when each is ready, and that the optimizer waits for all."""

import functools
from typing import Any

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from scalewise.watch.recorder import Recorder
from scalewise.watch.rehearsal.tape import TapeRecorder


def install(recorder: Recorder, tape: TapeRecorder) -> None:
    """A communication hook that hands the bucket back at once; a hook of the script's own takes its place."""
    original_init: Any = DistributedDataParallel.__init__
    original_forward: Any = DistributedDataParallel.forward
    pending: list[int] = []

    def hook(state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        # Without a hook the reducer divides while it copies, which takes as long as copying alone: a pass of its own
        # to divide would make the step longer than it is. The gradient of this rank stands for the mean of all.
        pending.append(tape.issue("all_reduce", buffer.numel() * buffer.element_size(), 0))
        if bucket.is_last():
            for number in pending:
                tape.wait(number)
            pending.clear()
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(buffer)
        return future

    @functools.wraps(original_init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original_init(self, *args, **kwargs)
        self.__dict__["_rehearsed"] = True

    @functools.wraps(original_forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Not before the first forward: until then the script may still register a hook of its own.
        if self.__dict__.pop("_rehearsed", False) and not self._comm_hooks:
            self.register_comm_hook(None, hook)
        return original_forward(self, *args, **kwargs)

    DistributedDataParallel.__init__ = __init__  # type: ignore[method-assign]
    DistributedDataParallel.forward = forward  # type: ignore[method-assign]
    _tape_buffers(tape)


def _tape_buffers(tape: TapeRecorder) -> None:
    """The broadcast of buffers before forward (batch norm's running statistics) comes from C++; its caller does not."""
    original = getattr(DistributedDataParallel, "_sync_buffers", None)
    if original is None:
        return

    @functools.wraps(original)
    def _sync_buffers(self: Any) -> Any:
        size_bytes = sum(buffer.numel() * buffer.element_size() for buffer in self.module.buffers())
        if size_bytes:
            tape.wait(tape.issue("broadcast", size_bytes, 0))
        return original(self)

    DistributedDataParallel._sync_buffers = _sync_buffers  # type: ignore[method-assign]
