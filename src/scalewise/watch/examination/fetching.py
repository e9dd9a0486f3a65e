"""Notes how samples are fetched: what the time goes into, and the random generators that it draws from.

The time is that of the dataset itself (decode), of putting samples together, and of pinning memory. Whether fetching
draws from a generator shows in digests of the generators' states, before and after the first fetch of an epoch; nothing
is drawn. The fetchers of torch run in the rank or in its workers. A forked worker writes its own lines; for one that
was spawned, only the seed it was given is known.
"""

import contextlib
import hashlib
import random
import sys
import threading
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any

import torch
from torch.utils.data import get_worker_info
from torch.utils.data._utils import fetch, pin_memory

from scalewise.records.examination import LoadingRow, WorkerSeedRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.call_arguments import receiver
from scalewise.watch.examination.loop import sampled
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.seams import Given, Guard, Looks, Outermost, seam

MOST_EPOCHS = 3  # of one loader that are looked at
_TIMES, _SEEN = "_scalewise_times", "_scalewise_seen"
_FETCHERS = (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher)


class _Everywhere:
    """A guard for what also happens in forked workers, where nothing else is noted."""

    on = True

    def __init__(self, notebook: Notebook) -> None:
        self.broke = notebook.broke


class _OfThread(threading.local, Outermost):
    """A mark of each thread: memory may be pinned in one of its own."""


# ---- times


class _Times:
    """The times of one fetcher: one epoch of one loader in one process."""

    def __init__(self, collate: Any) -> None:
        self.batches = self.whole_ns = self.collate_ns = 0
        self._collate = collate

    def collate(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the fetcher's own collate function and adds up its time."""
        began_ns = perf_counter_ns()
        try:
            return self._collate(*args, **kwargs)
        finally:
            self.collate_ns += perf_counter_ns() - began_ns


class FetchTimer:
    """The times spent on fetching in this process."""

    def __init__(self, notebook: Notebook, serving: Callable[[], int]) -> None:
        self._notebook = notebook
        self._serving = serving  # the loader that is being asked
        self._pin_ns = 0

    def install(self) -> None:
        """Looks at the fetchers, and at the function that pins memory."""
        everywhere = _Everywhere(self._notebook)
        for kind in _FETCHERS:
            seam(kind, "fetch").during(everywhere, self._fetching)
        seam(pin_memory, "pin_memory").during(everywhere, self._pinning, _OfThread())

    def _fetching(self, args: tuple[Any, ...], kwargs: Given) -> Looks:
        fetcher = receiver(args, kwargs)
        times = vars(fetcher).get(_TIMES)
        if times is None:
            times = _Times(fetcher.collate_fn)
            setattr(fetcher, _TIMES, times)
            fetcher.collate_fn = times.collate
        began_ns = perf_counter_ns()
        yield
        times.whole_ns += perf_counter_ns() - began_ns
        times.batches += 1
        if sampled(times.batches):
            self._tell(times)

    def _pinning(self, args: tuple[Any, ...], kwargs: Given) -> Looks:
        began_ns = perf_counter_ns()
        try:
            yield
        finally:
            self._pin_ns += perf_counter_ns() - began_ns

    def _tell(self, times: _Times) -> None:
        worker = get_worker_info()
        decode_ns = times.whole_ns - times.collate_ns
        number = NOWHERE if worker is None else worker.id
        row = LoadingRow(self._serving(), number, times.batches, decode_ns, times.collate_ns, self._pin_ns)
        if worker is None:
            if self._notebook.on:
                self._notebook.row(row)
        else:
            self._notebook.aside(row)


# ---- random generators


class Workers:
    """A record of which loader is being served, in the rank and, by inheritance, in workers forked from it."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._serving = NOWHERE
        self._epochs: dict[int, int] = {}
        self._base_seed: int | None = None

    def now_serving(self) -> int:
        """The loader that is being asked; in a worker, the one that it was forked for."""
        return self._serving

    def install(self) -> None:
        """Looks at the fetchers, which the rank and its workers both use."""
        for kind in _FETCHERS:
            seam(kind, "fetch").during(_Everywhere(self._notebook), self._random_states)

    @contextlib.contextmanager
    def serving(self, loader: int, begins: bool = False) -> Iterator[None]:
        """A context in which a loader is asked for an iterator or a batch."""
        before, self._serving = self._serving, loader
        if begins:
            self._epochs[loader] = self._epochs.get(loader, 0) + 1
        try:
            yield
        finally:
            self._serving = before

    def epoch_begun(self, loader: int, iterator: Any) -> None:
        """Notes the seed of the workers, which a new iterator has drawn."""
        self._base_seed = getattr(iterator, "_base_seed", None)
        if getattr(iterator, "_num_workers", 0) and self._epochs.get(loader, 0) <= MOST_EPOCHS:
            self._notebook.row(WorkerSeedRow(loader, NOWHERE, self._base_seed, states()))

    def _random_states(self, args: tuple[Any, ...], kwargs: Given) -> Looks:
        fetcher = receiver(args, kwargs)
        # There is one fetcher for each epoch and process: only its first fetch is looked at.
        if vars(fetcher).get(_SEEN) or not self._looks():
            return
        setattr(fetcher, _SEEN, True)
        before = states()
        with _reseeding(_Everywhere(self._notebook)) as seeded:
            yield
        after = states()
        used = {name: after.get(name) != state and name not in seeded for name, state in before.items()}
        worker = get_worker_info()
        if worker is None:
            self._notebook.row(WorkerSeedRow(self._serving, NOWHERE, self._base_seed, before, used))
        else:
            seed = worker.seed - worker.id  # as torch makes the one from the other
            self._notebook.aside(WorkerSeedRow(self._serving, worker.id, seed, before, used))

    def _looks(self) -> bool:
        """Returns whether this fetch is looked at: in the rank itself, or in a worker forked from it."""
        return 0 < self._epochs.get(self._serving, 0) <= MOST_EPOCHS and (
            self._notebook.on or get_worker_info() is not None
        )


@contextlib.contextmanager
def _reseeding(guard: Guard) -> Iterator[set[str]]:
    """The generators (torch, numpy, random) that are seeded inside the context.

    What a fetch draws from a generator that it seeds itself does not depend on the generator's earlier state.
    """
    seeded: set[str] = set()
    numpy: Any = sys.modules.get("numpy")
    owners: list[tuple[str, Any, str]] = [
        ("torch", torch, "manual_seed"),
        ("torch", torch.random, "manual_seed"),
        ("random", random, "seed"),
        *([("numpy", numpy.random, "seed")] if numpy is not None else []),
    ]

    def noting(generator: str) -> Any:
        def seeds(args: tuple[Any, ...], kwargs: Given) -> None:
            seeded.add(generator)

        return seeds

    joined = [(seam(owner, name), noting(generator)) for generator, owner, name in owners]
    subscribed = [(one, one.before(guard, seeds)) for one, seeds in joined]
    try:
        yield seeded
    finally:
        for one, subscriber in subscribed:
            one.leave(subscriber)


def states() -> dict[str, str]:
    """Digests of the states of the three generators that a dataset may draw from without making its own."""
    found = {"torch": _digest(torch.get_rng_state().numpy().tobytes()), "random": _digest(repr(random.getstate()))}
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        state = numpy.random.get_state(legacy=False)
        found["numpy"] = _digest(repr([state["state"]["key"].tobytes(), state["state"]["pos"], state["has_gauss"]]))
    return found


def _digest(state: str | bytes) -> str:
    data = state.encode() if isinstance(state, str) else state
    return hashlib.blake2b(data, digest_size=8).hexdigest()
