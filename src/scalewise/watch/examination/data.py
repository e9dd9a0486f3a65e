"""Notes the DataLoaders of the script: how they were made, when an epoch begins and ends, and each wait for a batch."""

import functools
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from scalewise.records.examination import LoaderRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.loading import FetchTimer
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.numbers import ObjectNumbers
from scalewise.watch.examination.parts import DatasetParts
from scalewise.watch.examination.samplers import Samplers, sampler_of
from scalewise.watch.examination.workers import Workers


def install(notebook: Notebook) -> None:
    """Wraps the class of all loaders, the base class of their iterators, and what they draw and fetch with."""
    samplers, workers = Samplers(notebook), Workers(notebook)
    samplers.install()
    FetchTimer(notebook, workers.now_serving).install()  # first: the time taken to look at random states is no loading
    workers.install()
    loaders = _Loaders(notebook, samplers)
    _see_construction(notebook, loaders)
    _see_epochs(notebook, loaders, workers)
    _see_batches(notebook, loaders, workers)


class _Loaders:
    """The numbers of loaders, shared by their iterators."""

    def __init__(self, notebook: Notebook, samplers: Samplers) -> None:
        self.notebook = notebook
        self.samplers = samplers
        self.numbers, self.iterators = ObjectNumbers(), ObjectNumbers()
        self._parts = DatasetParts(notebook)
        self._parts.install()

    def describe(self, loader: Any) -> int:
        """Writes how a loader was made, once; returns its number."""
        number = self.numbers.of(loader)
        if number is None:
            number = self.numbers.give(loader)
            self.notebook.row(_row(loader, number, self.notebook.places.here()))
            self.samplers.see(loader)
            part = self._parts.row(loader, number)
            if part is not None:
                self.notebook.row(part)
        return number


def _row(loader: Any, number: int, place: int) -> LoaderRow:
    sampler = sampler_of(loader)
    iterable = isinstance(loader.dataset, IterableDataset)
    batch_size = getattr(loader.batch_sampler, "batch_size", loader.batch_size)
    seed = getattr(sampler, "seed", None)
    return LoaderRow(
        index=number,
        place=place,
        workers=loader.num_workers,
        pinned=bool(loader.pin_memory),
        batch_size=batch_size if isinstance(batch_size, int) else None,
        drop_last=bool(getattr(loader.batch_sampler, "drop_last", loader.drop_last)),
        sampler=type(sampler).__name__,
        knows_ranks=any(hasattr(one, "num_replicas") and hasattr(one, "rank") for one in Samplers.inside(loader)),
        samples=None if iterable else _length(loader.dataset),
        drawn=None if iterable or sampler is loader.batch_sampler else _length(sampler),
        iterable=iterable,
        seed=seed if type(seed) is int else None,
    )


def _length(thing: Any) -> int | None:
    """The length of a dataset or sampler; None if it has none."""
    try:
        return len(thing)
    except Exception:
        return None


def _see_construction(notebook: Notebook, loaders: _Loaders) -> None:
    original = DataLoader.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if notebook.on:
            _quietly(notebook, lambda: loaders.describe(self))

    DataLoader.__init__ = __init__  # type: ignore[method-assign]


def _see_epochs(notebook: Notebook, loaders: _Loaders, workers: Workers) -> None:
    original = DataLoader.__iter__

    @functools.wraps(original)
    def __iter__(self: Any) -> Any:
        if not notebook.on:
            return original(self)
        number = _quietly(notebook, lambda: loaders.describe(self))
        notebook.note("loader", number)
        # Worker processes are forked in here, and learn in this way whose they are.
        with workers.serving(number, begins=True):
            iterator = original(self)
        _quietly(notebook, lambda: loaders.iterators.give(iterator, number))
        _quietly(notebook, lambda: workers.epoch_begun(number, iterator))
        return iterator

    DataLoader.__iter__ = __iter__  # type: ignore[method-assign]


def _see_batches(notebook: Notebook, loaders: _Loaders, workers: Workers) -> None:
    original = _BaseDataLoaderIter.__next__

    @functools.wraps(original)
    def __next__(self: Any) -> Any:
        if not notebook.on:
            return original(self)
        number = loaders.iterators.of(self)
        if number is None:
            number = NOWHERE
        place = notebook.places.here()
        began_ns = perf_counter_ns()
        try:
            with workers.serving(number):
                batch = original(self)
        except StopIteration:
            notebook.note("exhausted", number, place=place)
            notebook.write()  # once an epoch: so a rank that dies soon after is known to have finished it
            raise
        notebook.note("batch", number, perf_counter_ns() - began_ns, place=place)
        return batch

    _BaseDataLoaderIter.__next__ = __next__  # type: ignore[method-assign]


def _quietly(notebook: Notebook, act: Callable[[], int | None]) -> int:
    try:
        result = act()
        return NOWHERE if result is None else result
    except Exception as error:
        notebook.broke("data", error)
        return NOWHERE
