"""Sends the buckets of DistributedDataParallel, and its buffers, over the emulated link.

The reducer is given a process group in front of the real one, which holds back its all-reduces. A communication hook
would do, too, but it has to divide the gradients in a pass of its own, which costs a large model 4 % of its step; the
reducer divides while it copies.
"""

import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from scalewise.watch.emulation.carrier import Carrier, Message
from scalewise.watch.emulation.collectives import rank_among_all, tensor_bytes
from scalewise.watch.seams import seam, seams


def install(carrier: Carrier) -> None:
    """Gives each reducer the emulated group.

    A script's own communication hook bypasses it; the hook's collectives are held back as calls.
    """
    # The reducer holds the C++ side of a group only; without its Python side, ours would be one without a backend.
    kept: weakref.WeakKeyDictionary[Any, _Group] = weakref.WeakKeyDictionary()
    _wrap_buffers(carrier)

    def init_helper(call: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        group = self.process_group
        if dist.get_world_size(group) > 1:
            self.process_group = kept[self] = _Group(carrier, group)
        try:
            return call(self, *args, **kwargs)
        finally:
            self.process_group = group

    seam(DistributedDataParallel, "_ddp_init_helper").around(init_helper)


class _Group(dist.ProcessGroup):
    """A process group that passes what the reducer asks for on to the real group."""

    def __init__(self, carrier: Carrier, group: dist.ProcessGroup) -> None:
        super().__init__(group.rank(), group.size())  # type: ignore[call-arg]
        self._carrier, self._group, self._rank = carrier, group, rank_among_all(group)

    def getBackendName(self) -> str:
        """A name that is not the real backend's: by a known name, DDP would look for that backend's settings here."""
        return "emulated"

    def allreduce(self, tensors: Any, options: Any = None) -> Any:  # type: ignore[override]
        """Sends a bucket, or the few numbers that say which parameters were used."""
        given = tensors if isinstance(tensors, list) else [tensors]
        message = self._carrier.ready(tensor_bytes(given), self._rank)
        work = self._group.allreduce(tensors, options) if options is not None else self._group.allreduce(tensors)
        message.arrive = work.wait
        future: torch.futures.Future[Any] = torch.futures.Future()
        self._carrier.then(message, lambda: _settle(future, message, given))
        self._carrier.carry(message)
        return _Work(message, future)

    def broadcast(self, tensors: Any, options: Any = None) -> Any:  # type: ignore[override]
        """Broadcasts the order of buckets, without delay: it happens once and is part of no step's usual work."""
        return self._group.broadcast(tensors, options)


class _Work(dist.Work):
    """The handle of one message, as the reducer expects it."""

    def __init__(self, message: Message, future: Any) -> None:
        super().__init__()
        self._message, self._future = message, future

    def wait(self, timeout: Any = None) -> bool:
        """Waits until the message is through the link."""
        self._message.wait()
        return True

    def get_future(self) -> Any:
        """Returns a future of the reduced tensors."""
        return self._future


def _settle(future: torch.futures.Future[Any], message: Message, tensors: list[torch.Tensor]) -> None:
    if message.error is None:
        future.set_result(tensors)
    else:
        future.set_exception(message.error)


def _wrap_buffers(carrier: Carrier) -> None:
    """Wraps the Python caller of the broadcast of buffers before forward, as the broadcast itself is made in C++."""

    def sync_buffers(call: Any, self: Any) -> Any:
        # A hook of the script's own sends through torch.distributed, where its messages are held back as calls.
        if hasattr(self, "buffer_hook") or dist.get_world_size(self.process_group) < 2:
            return call(self)
        rank = rank_among_all(self.process_group)
        messages = [carrier.ready(size_bytes, rank) for size_bytes in _broadcast_bytes(self)]
        result = call(self)
        for message in messages:
            carrier.carry(message)
        for message in messages:
            message.wait()
        return result

    for private in seams(DistributedDataParallel, ("_sync_buffers",)).values():
        private.around(sync_buffers)


def _broadcast_bytes(model: Any) -> list[int]:
    """The bytes of each message that C++ makes of the buffers: one for each dtype, and more if they are large."""
    buffers = [buffer for name, buffer in model.module.named_buffers() if name not in model.parameters_to_ignore]
    if not buffers:
        return []
    assigned: Any = dist._compute_bucket_assignment_by_size  # type: ignore[attr-defined]
    numbers, _ = assigned(buffers, [model.broadcast_bucket_size])
    return [tensor_bytes([buffers[number] for number in some]) for some in numbers]
