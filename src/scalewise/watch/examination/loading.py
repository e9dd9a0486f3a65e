"""Measures what fetching a batch is spent on: the dataset itself (decode), putting samples together, pinning memory.

The fetchers of torch run in the rank or in its workers; a forked worker writes its own lines.
"""

import functools
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from torch.utils.data import get_worker_info
from torch.utils.data._utils import fetch, pin_memory

from scalewise.records.examination import LoadingRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.call_arguments import receiver
from scalewise.watch.examination.loop import sampled
from scalewise.watch.examination.notebook import Notebook

_TIMES = "_scalewise_times"


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
        """Wraps the fetchers, and the function that pins memory."""
        for kind in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            kind.fetch = self._timed(kind.fetch)  # type: ignore[method-assign]
        self._see_pinning()

    def _timed(self, original: Any) -> Any:
        @functools.wraps(original)
        def fetch_timed(*args: Any, **kwargs: Any) -> Any:
            fetcher = receiver(args, kwargs)
            times = vars(fetcher).get(_TIMES)
            if times is None:
                times = _Times(fetcher.collate_fn)
                setattr(fetcher, _TIMES, times)
                fetcher.collate_fn = times.collate
            began_ns = perf_counter_ns()
            result = original(*args, **kwargs)
            times.whole_ns += perf_counter_ns() - began_ns
            times.batches += 1
            if sampled(times.batches):
                try:
                    self._tell(times)
                except Exception as error:
                    self._notebook.broke("loading", error)
            return result

        return fetch_timed

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

    def _see_pinning(self) -> None:
        original: Any = pin_memory.pin_memory
        inside = threading.local()

        @functools.wraps(original)
        def pin(*args: Any, **kwargs: Any) -> Any:
            if getattr(inside, "one", False):
                return original(*args, **kwargs)
            inside.one, began_ns = True, perf_counter_ns()
            try:
                return original(*args, **kwargs)
            finally:
                inside.one = False
                self._pin_ns += perf_counter_ns() - began_ns

        pin_memory.pin_memory = pin
