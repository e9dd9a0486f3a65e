"""Makes every DataLoader over a dataset with a length draw its rank's share, in a new order every epoch.

`loader`: only the loader of that number, in order of construction from 0; if left out, all loaders.
"""

import inspect
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler
from torch.utils.data.distributed import DistributedSampler

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.call_arguments import receiver
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Given, seam

NAME = "shard_data"
CHANGE = Declared(settings={"loader": "loader"}, optional=("loader",))


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Gives the constructor a sampler; a sampler that knows of ranks already, and one of batches, stay."""
    signature = inspect.signature(DataLoader.__init__)
    chosen = settings.get("loader")
    made = 0

    def __init__(call: Any, /, *args: Any, **kwargs: Any) -> None:
        nonlocal made
        bound = signature.bind(*args, **kwargs)
        if chosen in (None, made):
            sampler = _sampler(bound.arguments)
            if sampler is not None:
                bound.arguments.update(sampler=sampler, shuffle=None)
                recorder.intervene(NAME)
        made += 1
        call(*bound.args, **bound.kwargs)

    def count_epochs(args: tuple[Any, ...], kwargs: Given, iterator: Any) -> None:
        sampler = receiver(args, kwargs).sampler
        if isinstance(sampler, _Share):
            sampler.set_epoch(sampler.epoch + 1)  # for the next: workers already have this iterator's order

    seam(DataLoader, "__init__").around(__init__)
    seam(DataLoader, "__iter__").after(ChangeGuard(recorder, NAME), count_epochs)


def _sampler(arguments: Mapping[str, Any]) -> DistributedSampler[Any] | None:
    dataset, own = arguments["dataset"], arguments.get("sampler")
    replicas, rank = _ranks()
    if replicas < 2 or arguments.get("batch_sampler") is not None or hasattr(own, "num_replicas"):
        return None
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        return None
    shuffle = bool(arguments.get("shuffle")) or isinstance(own, RandomSampler)
    return _Share(dataset, replicas, rank, shuffle, drop_last=bool(arguments.get("drop_last")))


class _Share(DistributedSampler[Any]):
    """A sampler that the change has installed, and whose epochs the change counts."""


def _ranks() -> tuple[int, int]:
    """The number of ranks, and this process's rank; a loader may be made before the process group."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size(), torch.distributed.get_rank()
    return int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
