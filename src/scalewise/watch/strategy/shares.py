"""Divides batches among ranks: the rows that loaders draw for each batch, and rows of tensors."""

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

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


class LoaderShares:
    """The loaders whose training batches are divided: a rank fetches only its own rows of each batch."""

    def __init__(self, guard: Guard, abstain: Callable[[str], None]) -> None:
        self.fed = False  # a loader whose batches are divided has begun
        self._abstain = abstain
        seam(DataLoader, "__init__").after(guard, self._made)
        seam(DataLoader, "__iter__").before(guard, self._begins)

    def _made(self, args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        loader = receiver(args, kwargs)
        if loader.batch_sampler is not None:
            # The class refuses a new value by attribute, as it would have no effect on workers that have begun.
            object.__setattr__(loader, "batch_sampler", _Shares(loader.batch_sampler, self._abstain))

    def _begins(self, args: tuple[Any, ...], kwargs: Given) -> None:
        if isinstance(receiver(args, kwargs).batch_sampler, _Shares) and torch.is_grad_enabled():
            self.fed = True


class _Shares:
    """A batch sampler that yields a rank's own rows of each batch; without gradients, all rows."""

    def __init__(self, whole: Any, abstain: Callable[[str], None]) -> None:
        self.whole = whole
        self._abstain = abstain

    def __iter__(self) -> Iterator[Sequence[Any]]:
        divided = torch.is_grad_enabled()  # evaluation is not divided: what a script prints of it is of all samples
        rank, ranks = rank_and_ranks()
        for number, batch in enumerate(self.whole):
            rows = list(batch)
            begin, end = span(len(rows), rank, ranks)
            if divided and len(rows) < ranks and not number:
                self._abstain(TOO_FEW.format(rows=len(rows), ranks=ranks))
            # A last batch that is smaller than the ranks are many: some take a row that another has, too.
            yield rows if not divided else rows[begin:end] or rows[rank % len(rows) :][:1]

    def __len__(self) -> int:
        return len(self.whole)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)
