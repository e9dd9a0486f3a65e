"""Sends the buckets of DistributedDataParallel, and its buffers, over the emulated link."""

import functools
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from scalewise.watch.emulation.carrier import Carrier, Message
from scalewise.watch.emulation.collectives import rank_among_all, real
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder, carrier: Carrier) -> None:
    """A communication hook; one of the script's own keeps its place, and its collectives are held back instead."""
    original_init: Any = DistributedDataParallel.__init__
    original_forward: Any = DistributedDataParallel.forward
    register: Any = DistributedDataParallel.register_comm_hook  # as torch has it: the watcher counts the script's own
    _wrap_buffers(carrier)

    @functools.wraps(original_init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original_init(self, *args, **kwargs)
        self.__dict__["_link_is_new"] = True

    @functools.wraps(original_forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Not before the first forward: until then the script may still register a hook of its own.
        if self.__dict__.pop("_link_is_new", False) and not self._comm_hooks:
            try:
                if dist.get_world_size(self.process_group) > 1:
                    register(self, None, _held_back(carrier, self.process_group, self.gradient_as_bucket_view))
            except Exception as error:
                recorder.broke("emulated link", error)
        return original_forward(self, *args, **kwargs)

    DistributedDataParallel.__init__ = __init__  # type: ignore[method-assign]
    DistributedDataParallel.forward = forward  # type: ignore[method-assign]


def _held_back(carrier: Carrier, group: Any, views: bool) -> Any:
    """A communication hook that does what the reducer does by itself; torch reads its annotations."""
    ranks, rank = dist.get_world_size(group), rank_among_all(group)
    all_reduce = real("all_reduce")

    def hook(state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer()
        # As the reducer divides, to the last bit: it multiplies while it copies, and divides where nothing is copied.
        buffer.div_(ranks) if views else buffer.mul_(1.0 / ranks)
        message = carrier.ready(buffer.numel() * buffer.element_size(), rank)
        message.arrive = all_reduce(buffer, group=group, async_op=True).wait
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        carrier.then(message, lambda: _settle(future, message, buffer))
        carrier.carry(message)
        return future

    return hook


def _settle(future: torch.futures.Future[torch.Tensor], message: Message, buffer: torch.Tensor) -> None:
    if message.error is None:
        future.set_result(buffer)
    else:
        future.set_exception(message.error)  # type: ignore[arg-type]


def _wrap_buffers(carrier: Carrier) -> None:
    """The broadcast of buffers before forward comes from C++; its caller does not."""
    original = getattr(DistributedDataParallel, "_sync_buffers", None)
    if original is None:
        return

    @functools.wraps(original)
    def _sync_buffers(self: Any) -> Any:
        size_bytes = sum(buffer.numel() * buffer.element_size() for buffer in self.module.buffers())
        if not size_bytes or dist.get_world_size(self.process_group) < 2:
            return original(self)
        message = carrier.ready(size_bytes, rank_among_all(self.process_group))
        result = original(self)
        carrier.carry(message)
        message.wait()
        return result

    DistributedDataParallel._sync_buffers = _sync_buffers  # type: ignore[method-assign]
