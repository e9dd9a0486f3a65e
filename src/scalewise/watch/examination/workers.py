"""Notes the random generators that samples are fetched with, and whether fetching draws from them.

It compares digests of the generators' states, before and after the first fetch of an epoch; nothing is drawn. A worker
process that was forked writes its own line; for one that was spawned, only the seed it was given is known.
"""

import contextlib
import functools
import hashlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import get_worker_info
from torch.utils.data._utils import fetch

from scalewise.records.examination import WorkerSeedRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.call_arguments import receiver
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.reseeding import reseeding

_SEEN = "_scalewise_seen"
MOST_EPOCHS = 3  # of one loader that are looked at


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
        """Wraps the fetchers, which the rank and its workers both use."""
        for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            kind.fetch = self._noted(kind.fetch)  # type: ignore[method-assign]

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

    def _noted(self, original: Any) -> Any:
        @functools.wraps(original)
        def fetch_noted(*args: Any, **kwargs: Any) -> Any:
            fetcher = receiver(args, kwargs)
            # There is one fetcher for each epoch and process: only its first fetch is looked at.
            if vars(fetcher).get(_SEEN) or not self._looks():
                return original(*args, **kwargs)
            before = self._look(fetcher)
            with reseeding() as seeded:
                result = original(*args, **kwargs)
            self._tell(before, seeded)
            return result

        return fetch_noted

    def _looks(self) -> bool:
        """Returns whether this fetch is looked at: in the rank itself, or in a worker forked from it."""
        return 0 < self._epochs.get(self._serving, 0) <= MOST_EPOCHS and (
            self._notebook.on or get_worker_info() is not None
        )

    def _look(self, fetcher: Any) -> dict[str, str]:
        try:
            setattr(fetcher, _SEEN, True)
            return states()
        except Exception as error:
            self._notebook.broke("random states", error)
            return {}

    def _tell(self, before: dict[str, str], seeded: set[str]) -> None:
        try:
            after = states()
            used = {name: after.get(name) != state and name not in seeded for name, state in before.items()}
            worker = get_worker_info()
            if worker is None:
                self._notebook.row(WorkerSeedRow(self._serving, NOWHERE, self._base_seed, before, used))
            else:
                seed = worker.seed - worker.id  # as torch makes the one from the other
                self._notebook.aside(WorkerSeedRow(self._serving, worker.id, seed, before, used))
        except Exception as error:
            self._notebook.broke("random states", error)


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
