"""Counts the samples of a batch: the rows of the first tensor in it, however it is nested."""

from typing import Any

import torch


def rows_of(args: tuple[Any, ...], kwargs: dict[str, Any], axis: int | None = 0) -> int | None:
    """The rows of the first tensor among the arguments, by custom its first dimension; None if that is not sure."""
    tensor = first_tensor((args, kwargs), depth=5)
    if tensor is None or tensor.dim() == 0:
        return None
    if tensor.dim() == 1 or tensor.size(0) == tensor.size(1):
        return int(tensor.size(0))
    return int(tensor.size(axis)) if axis is not None else None


def first_tensor(values: Any, depth: int) -> torch.Tensor | None:
    """The first tensor, depth-first through tuples, lists and dictionaries, as far down as batches usually nest."""
    if isinstance(values, torch.Tensor):
        return values
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, (tuple, list)):
        return None
    if depth:
        for value in values:
            found = first_tensor(value, depth - 1)
            if found is not None:
                return found
    return None
