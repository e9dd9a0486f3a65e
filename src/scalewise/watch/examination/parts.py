"""Describes the part of a dataset that a loader draws from, so that the parts of ranks can be compared."""

import functools
import hashlib
from typing import Any

import numpy as np
from torch.utils.data import Subset

from scalewise.records.examination import PartRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.call_arguments import receiver
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.numbers import ObjectNumbers

MOST_INDICES = 5_000_000
FIRST = 2_000  # first samples of the whole dataset, for which the row says whether they are in the part
_MOST_NESTED = 4


class DatasetParts:
    """A registry of whole datasets, which describes the parts that loaders draw from."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._numbers = ObjectNumbers()
        self._lines = ObjectNumbers()  # that made each Subset

    def install(self) -> None:
        """Remembers which line made a Subset, directly or by `random_split`."""
        kind: Any = Subset
        original = kind.__init__

        @functools.wraps(original)
        def __init__(*args: Any, **kwargs: Any) -> None:
            original(*args, **kwargs)
            try:
                if self._notebook.on:
                    self._lines.give(receiver(args, kwargs), self._notebook.places.here())
            except Exception as error:
                self._notebook.broke("subset", error)

        kind.__init__ = __init__

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


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except Exception:
        return None
