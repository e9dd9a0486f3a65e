"""What a message brings where nobody sends: numbers that a script can go on with, none of them uninitialised."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

# A statistic or a decision is made up as if all ranks had the same; gradients are left alone, which is quicker.
MOST_REDUCED = 4096


def nothing() -> None:
    """The tensor stays as it is."""


def reduced(tensors: Sequence[torch.Tensor], opts: Any, ranks: int) -> None:
    """A sum of as many times the same; the mean, the largest and the smallest of equals need nothing."""
    if getattr(opts, "reduceOp", None) == dist.ReduceOp.SUM:
        for tensor in tensors:
            if tensor.numel() <= MOST_REDUCED and not tensor.is_sparse and tensor.dtype != torch.bool:
                tensor.detach().mul_(ranks)


def copied(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Each from the other where they are of one size, zeros where not."""
    for target, source in pairs:
        if target.shape == source.shape:
            target.detach().copy_(source)
        else:
            target.detach().zero_()


def repeated(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], ranks: int) -> None:
    """Each input again and again: one copy however many ranks."""
    for output, source in zip(outputs, inputs, strict=True):
        piece = output.numel() // ranks  # may be nothing
        output.detach().view(ranks, piece).copy_(source.reshape(1, piece).expand(ranks, piece))


def own_piece(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], rank: int) -> None:
    """This rank's piece of each input."""
    for output, source in zip(outputs, inputs, strict=True):
        piece = output.numel()
        output.detach().view(-1).copy_(source.reshape(-1).narrow(0, rank * piece, piece))


def zeros(tensors: Sequence[torch.Tensor]) -> None:
    """Memory that nobody wrote holds numbers that computing may be slow with."""
    for tensor in tensors:
        tensor.detach().zero_()
