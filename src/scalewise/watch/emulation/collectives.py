"""Sends what is called through torch.distributed over the emulated link: calls return, and handles finish, later.

Functions that send objects are left alone: they send one message with the size and one with the bytes, through
functions that are held back themselves. Bytes are those of the whole message, as a rehearsal puts them on tape, so that
a message takes as long over an emulated link as predicted.
"""

import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from scalewise.records.collectives import DISTRIBUTED, CollectiveFunction, functions_in
from scalewise.watch.call_arguments import Argument
from scalewise.watch.emulation.carrier import Carrier, Message
from scalewise.watch.seams import seams


def install(carrier: Carrier) -> None:
    """Replaces each function by one that sends, and then waits for the rest of the emulated time."""
    inside = threading.local()  # collectives call one another: only the outermost is a message
    sending = {one.name: one for one in functions_in(DISTRIBUTED) if one.payload != "objects"}
    for name, call in seams(dist, sending, within="torch.distributed").items():
        call.around(_held_back(carrier, sending[name], inside))


def rank_among_all(group: Any) -> int | None:
    """The rank of this process if the group is that of all ranks, None if it is another."""
    default = dist.distributed_c10d._get_default_group()
    return dist.get_rank() if group in (None, dist.group.WORLD, default) else None


def _held_back(carrier: Carrier, function: CollectiveFunction, inside: threading.local) -> Callable[..., Any]:
    size = WholeBytes(function, getattr(dist, function.name))

    def held_back(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        group = _group(args, kwargs)
        ranks = 0 if getattr(inside, "now", False) or not dist.is_initialized() else dist.get_world_size(group)
        if ranks < 2:
            return call(*args, **kwargs)
        message = carrier.ready(size.of(args, kwargs, ranks), rank_among_all(group))
        inside.now = True
        try:
            result = call(*args, **kwargs)
        finally:
            inside.now = False
        works = result if isinstance(result, list) else [result]
        if not works or not all(isinstance(one, dist.Work) for one in works):
            carrier.carry(message)
            message.wait()
            return result
        message.arrive = lambda: [one.wait() for one in works]
        carrier.carry(message)
        handles = [_Handle(carrier, message, one) for one in works]
        return handles if isinstance(result, list) else handles[0]

    return held_back


def _group(args: Any, kwargs: Any) -> Any:
    """The group that was asked for, None for all ranks. A process outside the group sends nothing."""
    outside = dist.GroupMember.NON_GROUP_MEMBER
    given = (*args, *kwargs.values())
    found = (value for value in given if value is outside or isinstance(value, dist.ProcessGroup))
    return next(found, None)


class _Handle(dist.Work):
    """A handle in place of a real one, done when the emulated link has released the message."""

    def __init__(self, carrier: Carrier, message: Message, work: dist.Work) -> None:
        super().__init__()
        self._carrier, self._message, self._work = carrier, message, work

    def wait(self, timeout: Any = None) -> bool:
        """Waits for the link; errors of the real message are raised here."""
        self._message.wait()
        return True

    def is_completed(self) -> bool:
        """Returns whether the message is through the link."""
        return self._message.released.is_set()

    def is_success(self) -> bool:
        """Returns whether the message is through the link and the real one succeeded."""
        return self.is_completed() and self._message.error is None

    def get_future(self) -> Any:
        """A future of the real handle's result, done when the link has released the message."""
        arrived, released = self._work.get_future(), torch.futures.Future()  # type: ignore[var-annotated]

        def settle() -> None:
            if self._message.error is None:
                released.set_result(arrived.value())
            else:
                released.set_exception(self._message.error)

        self._carrier.then(self._message, settle)
        return released


class WholeBytes:
    """The bytes of the whole message that calls of one function send."""

    def __init__(self, function: CollectiveFunction, original: Callable[..., Any]) -> None:
        self._payload, self._argument = function.payload, Argument(original, function.argument)

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any], ranks: int) -> int:
        """The bytes of one call among so many ranks; 0 if it sends nothing but a signal."""
        value = self._argument.of(args, kwargs)
        if self._payload == "both_ways":
            return _larger_way(value)
        return tensor_bytes(value) * (ranks if self._payload == "piece" else 1)


def tensor_bytes(value: Any) -> int:
    """The bytes of a tensor, or of all in (nested) lists; 0 for anything else, about which torch itself complains."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(map(tensor_bytes, value)) if isinstance(value, (list, tuple)) else 0


def _larger_way(operations: Any) -> int:
    """The bytes of the larger direction of a batch: a link carries both at once, so that the larger one decides."""
    sent = received = 0
    for one in operations if isinstance(operations, (list, tuple)) else ():
        size_bytes = tensor_bytes(getattr(one, "tensor", None))
        # By name: the function itself is wrapped, by us and by the watcher.
        if getattr(getattr(one, "op", None), "__name__", "") == "isend":
            sent += size_bytes
        else:
            received += size_bytes
    return max(sent, received)
