"""Notes the DataLoaders of the script: how they were made, when an epoch begins and ends, and each wait for a batch.

Beside a loader stand the part of a dataset that it draws from, so that the parts of ranks can be compared, and the
samplers that divide a dataset among ranks, torch's own and those of the script, with their order and epoch.
"""

import hashlib
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any

import numpy as np
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, IterableDataset, Subset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from scalewise.records.examination import LoaderRow, PartRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.call_arguments import receiver
from scalewise.watch.examination.fetching import FetchTimer, Workers
from scalewise.watch.examination.notebook import Notebook, ObjectNumbers
from scalewise.watch.seams import Given, seam

MOST_INDICES = 5_000_000
FIRST = 2_000  # first samples of the whole dataset, for which the row says whether they are in the part
_MOST_NESTED = 4  # a batch sampler around a sampler around another one; a part of a part


def install(notebook: Notebook) -> None:
    """Looks at the class of all loaders, the base class of their iterators, and what they draw and fetch with."""
    samplers, workers = Samplers(notebook), Workers(notebook)
    samplers.install()
    FetchTimer(notebook, workers.now_serving).install()  # first: the time taken to look at random states is no loading
    workers.install()
    loaders = _Loaders(notebook, samplers, workers)
    seam(DataLoader, "__init__").after(notebook, loaders.made)
    seam(DataLoader, "__iter__").around(loaders.iterate)
    seam(_BaseDataLoaderIter, "__next__").around(loaders.next_batch)


class _Loaders:
    """The numbers of loaders, shared by their iterators."""

    def __init__(self, notebook: Notebook, samplers: "Samplers", workers: Workers) -> None:
        self._notebook, self._samplers, self._workers = notebook, samplers, workers
        self._numbers, self._iterators = ObjectNumbers(), ObjectNumbers()
        self._parts = DatasetParts(notebook)
        self._parts.install()

    def made(self, args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        """Describes a new loader."""
        self._describe(receiver(args, kwargs))

    def _describe(self, loader: Any) -> int:
        """Writes how a loader was made, once; returns its number."""
        number = self._numbers.of(loader)
        if number is None:
            number = self._numbers.give(loader)
            self._notebook.row(_row(loader, number, self._notebook.places.here()))
            self._samplers.see(loader)
            part = self._parts.row(loader, number)
            if part is not None:
                self._notebook.row(part)
        return number

    def iterate(self, call: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Begins an epoch."""
        notebook, workers, loader = self._notebook, self._workers, receiver(args, kwargs)
        if not notebook.on:
            return call(*args, **kwargs)
        number = self._quietly(lambda: self._describe(loader))
        notebook.note("loader", number)
        # Worker processes are forked in here, and learn in this way whose they are.
        with workers.serving(number, begins=True):
            iterator = call(*args, **kwargs)
        self._quietly(lambda: self._iterators.give(iterator, number))
        self._quietly(lambda: workers.epoch_begun(number, iterator))
        return iterator

    def next_batch(self, call: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Fetches a batch."""
        notebook, iterator = self._notebook, receiver(args, kwargs)
        if not notebook.on:
            return call(*args, **kwargs)
        known = self._iterators.of(iterator)
        number = NOWHERE if known is None else known
        place = notebook.places.here()
        began_ns = perf_counter_ns()
        try:
            with self._workers.serving(number):
                batch = call(*args, **kwargs)
        except StopIteration:
            notebook.note("exhausted", number, place=place)
            notebook.write()  # once an epoch: so a rank that dies soon after is known to have finished it
            raise
        notebook.note("batch", number, perf_counter_ns() - began_ns, place=place)
        return batch

    def _quietly(self, act: Callable[[], int | None]) -> int:
        try:
            result = act()
            return NOWHERE if result is None else result
        except Exception as error:
            self._notebook.broke("data", error)
            return NOWHERE


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


# ---- the parts of datasets


class DatasetParts:
    """A registry of whole datasets, which describes the parts that loaders draw from."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._numbers = ObjectNumbers()
        self._lines = ObjectNumbers()  # that made each Subset

    def install(self) -> None:
        """Remembers which line made a Subset, directly or by `random_split`."""
        seam(Subset, "__init__").after(self._notebook, self._made)

    def _made(self, args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        self._lines.give(receiver(args, kwargs), self._notebook.places.here())

    def row(self, loader: Any, number: int) -> PartRow | None:
        """The row on a loader's part, if it draws from a Subset (as `random_split` makes them); None otherwise."""
        dataset, indices = loader.dataset, None
        for _ in range(_MOST_NESTED):
            if not isinstance(dataset, Subset):
                break
            own = np.asarray(dataset.indices[:MOST_INDICES])
            if own.ndim != 1 or own.dtype.kind not in "iu":
                return None
            indices = own if indices is None else own[indices]
            dataset = dataset.dataset
        if indices is None:
            return None
        indices = indices.astype(np.int64)
        members = np.unique(indices)
        known, line = self._numbers.of(dataset), self._lines.of(loader.dataset)
        return PartRow(
            loader=number,
            place=NOWHERE if line is None else line,
            dataset=self._numbers.give(dataset) if known is None else known,
            whole=_length(dataset),
            samples=len(indices),
            members=_digest(members),
            order=_digest(indices),
            first=tuple(members[members < FIRST].tolist()),
        )


def _digest(indices: Any) -> str:
    return hashlib.blake2b(indices.tobytes(), digest_size=8).hexdigest()


# ---- samplers


def sampler_of(loader: Any) -> Any:
    """The object that decides a loader's order: its batch sampler, if the script wrote one, else its sampler."""
    batches = loader.batch_sampler
    if batches is None:
        return loader.sampler
    return batches.sampler if type(batches) is BatchSampler else batches


class Samplers:
    """A watcher of the sampler classes that are used in loaders."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._numbers = ObjectNumbers()
        self._watched: set[tuple[Any, str]] = set()

    def install(self) -> None:
        """Watches torch's own class from the start: its epoch may be set before any loader is made with it."""
        self._watch(DistributedSampler)

    def see(self, loader: Any) -> None:
        """Watches the classes of a new loader's samplers from now on."""
        for sampler in self.inside(loader):
            if _shares_out(sampler):
                self._watch(type(sampler))

    @staticmethod
    def inside(loader: Any) -> Iterator[Any]:
        """The samplers of a loader, from the outside in."""
        found = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
        for _ in range(_MOST_NESTED):
            if found is None:
                return
            yield found
            found = getattr(found, "sampler", None)

    def _watch(self, kind: type) -> None:
        """Looks where the methods are defined; a class that cannot be changed stays as it is."""
        for name, note in (("__iter__", self._iterated), ("set_epoch", self._epoch_set)):
            owner: Any = next((base for base in kind.__mro__ if name in vars(base)), None)
            if owner is not None and callable(vars(owner)[name]) and (owner, name) not in self._watched:
                self._watched.add((owner, name))
                seam(owner, name).after(self._notebook, self._noted(owner, name, note))

    def _noted(self, owner: Any, name: str, note: Callable[[Any], None]) -> Any:
        def sampler(args: tuple[Any, ...], kwargs: Given, result: Any) -> None:
            used = receiver(args, kwargs)
            # A class may call its parent's method, at once or while it is iterated: only the outermost call counts.
            if getattr(type(used), name, None) is vars(owner)[name] and _shares_out(used):
                note(used)

        return sampler

    def _number(self, sampler: Any) -> int:
        number = self._numbers.of(sampler)
        return self._numbers.give(sampler) if number is None else number

    def _iterated(self, sampler: Any) -> None:
        values = (_integer(sampler, name) for name in ("seed", "rank", "num_replicas"))
        shuffles = bool(getattr(sampler, "shuffle", False))
        self._notebook.note("sampler", self._number(sampler), _integer(sampler, "epoch"), shuffles, *values)

    def _epoch_set(self, sampler: Any) -> None:
        self._notebook.note("set_epoch", self._number(sampler), _integer(sampler, "epoch"))


def _shares_out(sampler: Any) -> bool:
    """Returns whether a sampler knows of ranks or of epochs."""
    knows_ranks = hasattr(sampler, "num_replicas") and hasattr(sampler, "rank")
    return knows_ranks or callable(getattr(sampler, "set_epoch", None))


def _integer(sampler: Any, name: str) -> int:
    value = getattr(sampler, name, None)
    return value if type(value) is int else NOWHERE
