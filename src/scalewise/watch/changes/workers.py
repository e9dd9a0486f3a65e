"""Gives every DataLoader over a dataset with indices `count` worker processes, whatever the script asks for.

`loader`: only the loader of that number, in order of construction from 0; if left out, all loaders. Loaders over
iterable datasets stay as they are: with more workers, each of them would go through all of the data.
"""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder

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
    original: Any = DataLoader.__init__
    signature = inspect.signature(original)
    made = 0

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal made
        bound = signature.bind(self, *args, **kwargs)
        number, made = made, made + 1
        if only in (None, number) and not isinstance(bound.arguments["dataset"], IterableDataset):
            _give(bound.arguments, count)
            recorder.intervene(NAME)
        original(*bound.args, **bound.kwargs)

    DataLoader.__init__ = __init__  # type: ignore[method-assign]


def _give(arguments: dict[str, Any], count: int) -> None:
    """Sets the number of workers; they persist, as workers started for every epoch would cost time every time."""
    arguments["num_workers"] = count
    if count:
        arguments["persistent_workers"] = True
        return
    for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"):
        arguments.pop(name, None)
