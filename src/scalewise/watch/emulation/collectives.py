"""Sends what is called through torch.distributed over the emulated link: calls return, and handles finish, later.

Functions that send objects are left alone: they send one message with the size and one with the bytes, through
functions that are held back themselves.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from scalewise.watch.emulation.carrier import Carrier, Message
from scalewise.watch.emulation.sizes import bytes_to_send
from scalewise.watch.hooks.collectives import KIND_OF, put

_OBJECTS = ("_object", "_object_list")
_REAL: dict[str, Callable[..., Any]] = {}


def install(carrier: Carrier) -> None:
    """Replaces each function by one that sends, and then waits for the rest of the emulated time."""
    inside = threading.local()  # collectives call one another: only the outermost is a message
    replaced: dict[Any, Any] = {}
    for name in KIND_OF:
        original = getattr(dist, name, None)
        if original is not None and not name.endswith(_OBJECTS):
            _REAL[name] = original
            replaced[original] = _held_back(carrier, name, original, inside)
    put(replaced)


def real(name: str) -> Callable[..., Any]:
    """The original function of torch.distributed, without the emulated delay."""
    return _REAL[name]


def rank_among_all(group: Any) -> int | None:
    """The rank of this process if the group is that of all ranks, None if it is another."""
    default = dist.distributed_c10d._get_default_group()
    return dist.get_rank() if group in (None, dist.group.WORLD, default) else None


def _held_back(
    carrier: Carrier, name: str, original: Callable[..., Any], inside: threading.local
) -> Callable[..., Any]:
    @functools.wraps(original)
    def held_back(*args: Any, **kwargs: Any) -> Any:
        group = _group(args, kwargs)
        ranks = 0 if getattr(inside, "now", False) or not dist.is_initialized() else dist.get_world_size(group)
        if ranks < 2:
            return original(*args, **kwargs)
        message = carrier.ready(bytes_to_send(name, args, kwargs, ranks), rank_among_all(group))
        inside.now = True
        try:
            result = original(*args, **kwargs)
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
