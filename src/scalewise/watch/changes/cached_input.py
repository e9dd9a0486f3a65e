"""Makes a DataLoader repeat the same few batches, as many as it would give: a loop that never waits for data.

`batches`: the number of different ones; 4 unless set.
"""

import weakref
from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "cached_input"
CHANGE = Declared(settings={"batches": "whole"}, optional=("batches",), between_steps=True)


class _Given:
    """The position of one iterator."""

    def __init__(self, kept: list[Any], length: int) -> None:
        self.kept = kept  # the batches of the loader, shared by all its iterators
        self.length = length
        self.batches = 0


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps loaders and iterators; loaders without a known length are left alone, since they would never end."""
    most = int(settings.get("batches", 4))
    if most < 1:
        raise ValueError(f"{most} batches to repeat")
    kept: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
    given: weakref.WeakKeyDictionary[Any, _Given] = weakref.WeakKeyDictionary()

    def __iter__(call: Any, self: Any) -> Any:
        iterator = call(self)
        length = _length(self)
        if length is not None:
            given[iterator] = _Given(kept.setdefault(self, []), length)
        return iterator

    def __next__(call: Any, self: Any) -> Any:
        state = given.get(self)
        if state is None:
            return call(self)
        number = state.batches
        state.batches += 1
        if number >= state.length:
            raise StopIteration
        if number >= len(state.kept) and len(state.kept) < most:
            state.kept.append(call(self))
            return state.kept[-1]
        recorder.intervene(NAME)
        return state.kept[number % len(state.kept)]

    seam(DataLoader, "__iter__").around(__iter__)
    seam(_BaseDataLoaderIter, "__next__").around(__next__)


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except TypeError:  # an iterable dataset, or a sampler without a length
        return None
