"""Divides batches among ranks: the rows that loaders draw for each batch, and rows of tensors."""

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

from scalewise.watch.call_arguments import receiver
from scalewise.watch.seams import Given, Guard, seam

Span = tuple[int, int]  # first row, and the one after the last
TOO_FEW = "a batch of {rows} has fewer samples than there are ranks ({ranks})"


@functools.cache
def rank_and_ranks() -> tuple[int, int]:
    """Returns the rank of this process and the number of ranks, as the environment was when this was first asked."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def span(rows: int, part: int, parts: int) -> Span:
    """The rows of one part: parts differ by one row at most, and the first ones are the larger ones."""
    least, more = divmod(rows, parts)
    begin = part * least + min(part, more)
    return begin, begin + least + (part < more)


class WholeBatch(list[Any]):
    """The numbers of the samples of a whole batch, of which a rank keeps its own rows when they have been fetched."""

    rank: int
    ranks: int

    def own(self, samples: Any) -> Any:
        """The rank's share of what was fetched."""
        return _own_rows(samples, self.rank, self.ranks) if isinstance(samples, list) else samples


def _own_rows(rows: list[Any], rank: int, ranks: int) -> list[Any]:
    """The rows of a rank; where there are fewer than ranks, some take a row that another has, too."""
    begin, end = span(len(rows), rank, ranks)
    return rows[begin:end] or rows[rank % max(1, len(rows)) :][:1]


class LoaderShares:
    """The loaders whose training batches are divided: a rank fetches only its own rows of each batch.

    It fetches all and keeps its own where samples come in a stream, and where ranks are compared with one rank: a data
    set that draws random numbers for each sample then draws the same.
    """

    def __init__(
        self, guard: Guard, abstain: Callable[[str], None], evaluates: Callable[[], bool], fetches_all: bool
    ) -> None:
        self.fed = False  # a loader whose batches are divided has begun
        self._abstain, self._evaluates, self._fetches_all = abstain, evaluates, fetches_all
        seam(DataLoader, "__init__").after(guard, self._made)
        seam(DataLoader, "__iter__").before(guard, self._begins)
        for fetcher in (_MapDatasetFetcher, _IterableDatasetFetcher):
            seam(fetcher, "fetch").around(_fetch)

    def _made(self, args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        loader = receiver(args, kwargs)
        if loader.batch_sampler is not None:
            fetches_all = self._fetches_all or isinstance(loader.dataset, IterableDataset)
            shares = _Shares(loader.batch_sampler, self._abstain, self._evaluates, fetches_all)
            # The class refuses a new value by attribute, as it would have no effect on workers that have begun.
            object.__setattr__(loader, "batch_sampler", shares)

    def _begins(self, args: tuple[Any, ...], kwargs: Given) -> None:
        if isinstance(receiver(args, kwargs).batch_sampler, _Shares) and not self._evaluates():
            self.fed = True


def _fetch(call: Any, fetcher: Any, index: Any) -> Any:
    """Fetches a whole batch, and lets only the rank's own samples become one."""
    if not isinstance(index, WholeBatch):
        return call(fetcher, index)
    collate = fetcher.collate_fn
    fetcher.collate_fn = lambda samples: collate(index.own(samples))
    try:
        return call(fetcher, index)
    finally:
        fetcher.collate_fn = collate


class _Shares:
    """A batch sampler that yields a rank's own rows of each batch; in an evaluation, all rows."""

    def __init__(
        self, whole: Any, abstain: Callable[[str], None], evaluates: Callable[[], bool], fetches_all: bool
    ) -> None:
        self.whole = whole
        self._abstain, self._evaluates, self._fetches_all = abstain, evaluates, fetches_all

    def __iter__(self) -> Iterator[Sequence[Any]]:
        divided = not self._evaluates()  # what a script prints of an evaluation is of all samples
        rank, ranks = rank_and_ranks()
        for number, batch in enumerate(self.whole):
            rows = WholeBatch(batch)
            rows.rank, rows.ranks = rank, ranks
            if divided and len(rows) < ranks and not number:
                self._abstain(TOO_FEW.format(rows=len(rows), ranks=ranks))
            if not divided:
                yield list(rows)
            else:
                yield rows if self._fetches_all else _own_rows(list(rows), rank, ranks)

    def __len__(self) -> int:
        return len(self.whole)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)
