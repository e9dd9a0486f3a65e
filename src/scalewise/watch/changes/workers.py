"""Gives every DataLoader over a dataset with indices `count` worker processes, whatever the script asks for.

`loader`: only the loader of that number, in order of construction from 0; if left out, all loaders. Loaders over
iterable datasets stay as they are: with more workers, each of them would go through all of the data.
"""

import inspect
from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "workers"
CHANGE = Declared(
    settings={"count": "workers", "loader": "loader"},
    optional=("loader",),
    example="workers:4",
    label="{count}",
    between_steps=True,
)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Changes what the constructor of loaders is given."""
    count, chosen = int(settings["count"]), settings.get("loader")
    only = None if chosen is None else int(chosen)
    if count < 0:
        raise ValueError(f"{count} workers")
    signature = inspect.signature(DataLoader.__init__)
    made = 0

    def __init__(call: Any, /, *args: Any, **kwargs: Any) -> None:
        nonlocal made
        bound = signature.bind(*args, **kwargs)
        number, made = made, made + 1
        if only in (None, number) and not isinstance(bound.arguments["dataset"], IterableDataset):
            _give(bound.arguments, count)
            recorder.intervene(NAME)
        call(*bound.args, **bound.kwargs)

    seam(DataLoader, "__init__").around(__init__)


def _give(arguments: dict[str, Any], count: int) -> None:
    """Sets the number of workers; they persist, as workers started for every epoch would cost time every time."""
    arguments["num_workers"] = count
    if count:
        arguments["persistent_workers"] = True
        return
    for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"):
        arguments.pop(name, None)
