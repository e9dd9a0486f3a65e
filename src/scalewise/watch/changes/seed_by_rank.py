"""Gives random generators different seeds: on every rank before its first loader is iterated, and in every worker."""

import functools
import inspect
import os
import random
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader, get_worker_info

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Given, seam

NAME = "seed_by_rank"
CHANGE = Declared()
_APART = 1_000_003  # between the seeds of two ranks: more than any number of workers


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps loaders, by whose first use the model is made; the script's own function for workers is called first."""
    signature = inspect.signature(DataLoader.__init__)
    seeded = False

    def __iter__(args: tuple[Any, ...], kwargs: Given) -> None:
        nonlocal seeded
        if not seeded:
            seeded = True
            recorder.intervene(NAME)
            _seed((torch.initial_seed() + _APART * (1 + int(os.environ.get("RANK", "0")))) % 2**32)

    def __init__(call: Any, /, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        if bound.arguments.get("num_workers"):
            bound.arguments["worker_init_fn"] = functools.partial(_begin, bound.arguments.get("worker_init_fn"))
        call(*bound.args, **bound.kwargs)

    seam(DataLoader, "__iter__").before(ChangeGuard(recorder, NAME), __iter__)
    seam(DataLoader, "__init__").around(__init__)


def _begin(own: Any, worker: int) -> None:
    """Seeds a worker's generators from the seed that torch has given it, after the script's own function."""
    if own is not None:
        own(worker)
    info: Any = get_worker_info()
    _seed(info.seed % 2**32)


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
