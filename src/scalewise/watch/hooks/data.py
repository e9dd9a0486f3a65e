"""Sees the script wait for its DataLoader, and how many rows the batch has."""

import functools
import threading
from typing import Any

from torch.utils.data.dataloader import _BaseDataLoaderIter

from scalewise.records.events import BATCH, DATA, DATA_END
from scalewise.watch.hooks.forward import rows_of
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Wraps the base class of all loader iterators."""
    original = _BaseDataLoaderIter.__next__
    this_thread, main_thread = threading.get_ident, threading.main_thread().ident

    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        # A thread that fetches ahead does not make the script wait.
        if not (recorder.awake and recorder.on) or recorder.fetching or this_thread() != main_thread:
            return original(self)
        recorder.fetching = True
        batch: Any = None
        try:
            recorder.stamp(DATA)
        except Exception as error:
            recorder.broke("data", error)
        try:
            batch = original(self)
            return batch
        finally:
            recorder.fetching = False
            try:
                recorder.stamp(DATA_END)
                rows = rows_of((batch,), {})
                if rows is not None:
                    recorder.note(BATCH, rows)
            except Exception as error:
                recorder.broke("data", error)

    _BaseDataLoaderIter.__next__ = __next__  # type: ignore[method-assign]
