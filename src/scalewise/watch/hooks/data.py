"""Sees the script wait for its DataLoader."""

import functools
from typing import Any

from torch.utils.data.dataloader import _BaseDataLoaderIter

from scalewise.records.events import DATA, DATA_END
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Wraps the base class of all loader iterators."""
    original = _BaseDataLoaderIter.__next__

    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        if not (recorder.awake and recorder.on):
            return original(self)
        try:
            recorder.stamp(DATA)
        except Exception as error:
            recorder.broke("data", error)
        try:
            return original(self)
        finally:
            try:
                recorder.stamp(DATA_END)
            except Exception as error:
                recorder.broke("data", error)

    _BaseDataLoaderIter.__next__ = __next__  # type: ignore[method-assign]
