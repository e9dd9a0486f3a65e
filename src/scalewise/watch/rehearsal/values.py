"""Makes what a message brings when nobody sends: numbers that a script can go on with, none of them uninitialised."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

# A statistic or a decision is made as if all ranks had the same; gradients are left alone, which is quicker.
MOST_REDUCED = 4096


def nothing() -> None:
    """Leaves the tensor as it is."""


def reduced(tensors: Sequence[torch.Tensor], opts: Any, ranks: int) -> None:
    """Multiplies sums by the number of ranks; the mean, the largest and the smallest of equals need nothing."""
    if getattr(opts, "reduceOp", None) == dist.ReduceOp.SUM:
        for tensor in tensors:
            if tensor.numel() <= MOST_REDUCED and not tensor.is_sparse and tensor.dtype != torch.bool:
                tensor.detach().mul_(ranks)


def copied(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Copies each source to its target if their sizes are equal, else writes zeros."""
    for target, source in pairs:
        if target.shape == source.shape:
            target.detach().copy_(source)
        else:
            target.detach().zero_()


def repeated(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], ranks: int) -> None:
    """Repeats each input once per rank, in one copy however many ranks there are."""
    for output, source in zip(outputs, inputs, strict=True):
        piece = output.numel() // ranks  # may be nothing
        output.detach().view(ranks, piece).copy_(source.reshape(1, piece).expand(ranks, piece))


def own_piece(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], rank: int) -> None:
    """Gives this rank's piece of each input."""
    for output, source in zip(outputs, inputs, strict=True):
        piece = output.numel()
        output.detach().view(-1).copy_(source.reshape(-1).narrow(0, rank * piece, piece))


def zeros(tensors: Sequence[torch.Tensor]) -> None:
    """Writes zeros: memory that nobody wrote holds numbers that computing may be slow with."""
    for tensor in tensors:
        tensor.detach().zero_()
