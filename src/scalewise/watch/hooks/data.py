"""Notes when the script waits for its DataLoader, and how many rows the batch has."""

import functools
import threading
import weakref
from typing import Any

import torch
from torch.utils.data import BatchSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from scalewise.records.events import BATCH, DATA, DATA_END, DRAWN, EVALUATED
from scalewise.watch.hooks.batch_rows import rows_of
from scalewise.watch.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Wraps the base class of all loader iterators."""
    between = recorder.batches_between = BatchesBetween(recorder)
    original = _BaseDataLoaderIter.__next__
    this_thread, main_thread = threading.get_ident, threading.main_thread().ident

    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        # A thread that fetches ahead does not make the script wait.
        if not (recorder.awake and recorder.on) or recorder.fetching or this_thread() != main_thread:
            return original(self)
        recorder.fetching = True
        batch: Any = None
        ended = False
        try:
            recorder.stamp(DATA)
        except Exception as error:
            recorder.broke("data", error)
        try:
            batch = original(self)
            return batch
        except StopIteration:
            ended = True
            raise
        finally:
            recorder.fetching = False
            try:
                recorder.stamp(DATA_END)
                rows = rows_of((batch,), {})
                if rows is not None:
                    recorder.note(BATCH, rows)
                elif batch is not None and (drawn := _drawn(self)):
                    recorder.note(DRAWN, drawn)
                if not recorder.open:
                    between.seen(self, rows, ended)
            except Exception as error:
                recorder.broke("data", error)

    _BaseDataLoaderIter.__next__ = __next__  # type: ignore[method-assign]


class BatchesBetween:
    """The batches since the last step, to tell those of an evaluation from those that the next step trains on.

    A loader's iterator that has begun and ended between two steps fed no training step; nor did one that delivered
    without gradients while another delivered with them. If that would leave no batch, the last iterator's are the
    step's.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._began: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # iterator -> step before it
        self._batches: list[tuple[weakref.ref[Any], int, bool]] = []  # iterator, rows, with gradients
        self._ended: list[weakref.ref[Any]] = []  # there is one weak reference to an object, so its identity tells

    def seen(self, iterator: Any, rows: int | None, ended: bool) -> None:
        """Notes that an iterator has delivered a batch or is at its end."""
        self._began.setdefault(iterator, self._recorder.step)
        if ended and self._began.pop(iterator) == self._recorder.step:
            self._ended.append(weakref.ref(iterator))
        elif rows is not None:
            self._batches.append((weakref.ref(iterator), rows, torch.is_grad_enabled()))

    def step_opens(self) -> None:
        """Notes which of the batches belong to the next step, if some do not."""
        batches, self._batches, ended, self._ended = self._batches, [], self._ended, []
        if not batches:
            return
        over = {id(one) for one in ended}
        alive = [one for one in batches if id(one[0]) not in over and one[0]() is not None]
        alive = alive or [one for one in batches if one[0] is batches[-1][0]]
        trained = [one for one in alive if one[2]] or alive
        if len(trained) < len(batches):
            self._recorder.note(EVALUATED)
            for _, rows, _ in trained:
                self._recorder.note(BATCH, rows)


def _drawn(iterator: Any) -> int:
    """The number of samples that torch's own batch sampler drew for the batch just delivered; 0 if not known."""
    sampler = iterator._index_sampler
    if type(sampler) is not BatchSampler:
        return 0
    try:
        samples = len(sampler.sampler)  # type: ignore[arg-type]
    except TypeError:
        return 0  # of a stream
    before: int = (iterator._num_yielded - 1) * sampler.batch_size
    return max(0, min(sampler.batch_size, samples - before))
