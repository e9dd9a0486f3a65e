"""Removes the exchange of gradients, while ranks compute as before: shows what a step takes without communication.

It removes the messages of DistributedDataParallel's reducer, and larger all-reduces that the script calls itself.
"""

import functools
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.call_arguments import Argument
from scalewise.watch.hooks.collectives import message_bytes, put
from scalewise.watch.recorder import Recorder

NAME = "remove_communication"
CHANGE = Declared(short="no comm.", label="remove communication", least_ranks=2)
# Below this an all-reduce carries a decision or a statistic, not gradients: removing it could change the script's path.
SMALLEST_REMOVED_BYTES = 1024


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Installs the change, for a torch that was built with distributed support."""
    _without_all_reduce(recorder)
    _without_reducer(recorder)


def _without_all_reduce(recorder: Recorder) -> None:
    original: Any = dist.all_reduce
    async_op = Argument(original, "async_op")

    @functools.wraps(original)
    def all_reduce(*args: Any, **kwargs: Any) -> Any:
        if recorder.on and recorder.open and message_bytes(recorder, args, kwargs) >= SMALLEST_REMOVED_BYTES:
            recorder.intervene(NAME)
            return _DoneWork() if async_op.of(args, kwargs) else None
        return original(*args, **kwargs)

    put({original: all_reduce})


def _without_reducer(recorder: Recorder) -> None:
    original: Any = DistributedDataParallel.__init__
    register: Any = DistributedDataParallel.register_comm_hook

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if recorder.on:
            try:
                register(self, None, _hook(recorder))
            except Exception as error:
                recorder.broke("DistributedDataParallel", error)

    @functools.wraps(register)
    def register_comm_hook(self: Any, state: object, hook: Any) -> None:
        """Ignores the script's own hook, since there is no communication left for it."""

    DistributedDataParallel.__init__ = __init__  # type: ignore[method-assign]
    DistributedDataParallel.register_comm_hook = register_comm_hook  # type: ignore[method-assign]


def _hook(recorder: Recorder) -> Any:
    """A communication hook that does everything but communicate; torch reads its annotations."""

    def hook(state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        recorder.intervene(NAME)
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        # Dividing is part of the reducer's work that must stay; what is missing is the other ranks' share of the sum.
        future.set_result(bucket.buffer().div_(dist.get_world_size()))
        return future

    return hook


class _DoneWork:
    """A handle in place of a collective that was removed, already done."""

    def wait(self, timeout: Any = None) -> bool:
        """Returns at once."""
        return True

    def is_completed(self) -> bool:
        """Returns True, always."""
        return True

    def get_future(self) -> Any:
        """A future that is already done."""
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(None)
        return future
