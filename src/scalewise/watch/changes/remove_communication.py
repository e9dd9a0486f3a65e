"""Removes the exchange of gradients, while ranks compute as before: shows what a step takes without communication.

It removes the messages of DistributedDataParallel's reducer, and larger all-reduces that the script calls itself.
"""

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.call_arguments import Argument, receiver
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.hooks.collectives import message_bytes
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Given, seam

NAME = "remove_communication"
CHANGE = Declared(short="no comm.", label="remove communication", least_ranks=2)
# Below this an all-reduce carries a decision or a statistic, not gradients: removing it could change the script's path.
SMALLEST_REMOVED_BYTES = 1024


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Installs the change, for a torch that was built with distributed support."""
    _without_all_reduce(recorder)
    _without_reducer(recorder)


def _without_all_reduce(recorder: Recorder) -> None:
    async_op = Argument(dist.all_reduce, "async_op")

    def all_reduce(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        if recorder.on and recorder.open and message_bytes(recorder, args, kwargs) >= SMALLEST_REMOVED_BYTES:
            recorder.intervene(NAME)
            return _DoneWork() if async_op.of(args, kwargs) else None
        return call(*args, **kwargs)

    seam(dist, "all_reduce", within="torch.distributed").around(all_reduce)


def _without_reducer(recorder: Recorder) -> None:
    registration = seam(DistributedDataParallel, "register_comm_hook")
    register = registration.call  # the script's own hook is ignored, since there is no communication left for it
    registration.around(lambda *args, **kwargs: None)

    def made(args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        register(receiver(args, kwargs), None, _hook(recorder))

    seam(DistributedDataParallel, "__init__").after(ChangeGuard(recorder, NAME), made)


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
