"""Tells whether a model computes each row of its batch by itself, so that ranks may have some of the rows."""

import copy
from typing import Any

import torch

from scalewise.watch.strategy.shares import span
from scalewise.watch.strategy.stand_ins import cut_rows, in_one_line, rows_of_part, tensors_in_order
from scalewise.watch.strategy.strategy_interface import CannotApply, Trained

CLOSE = 1e-3  # relative distance of results that were computed on a part of the rows; rows that mix differ by far more
DEPENDS = (
    "what the model returns for a row depends on the other rows of its batch: rows are steps in time or nodes of a "
    "graph, and no samples"
)


def check_row_by_row(trained: Trained, rows: int) -> None:
    """Raises CannotApply if copies of the model in evaluation mode return something else for a part of the rows.

    It says nothing of models that cannot be copied, or that draw random numbers in evaluation mode.
    """
    part = span(rows, trained.ranks - 1, trained.ranks)
    try:
        whole, again = (_results(trained, trained.args, trained.kwargs, seed) for seed in (0, 1))
    except Exception:  # the script's own call of its model will say what is wrong with it
        return
    if not _alike(whole, again):
        return
    try:
        args, kwargs = cut_rows((trained.args, trained.kwargs), rows, part)
        found = _results(trained, args, kwargs, 0)
    except Exception as error:
        raise CannotApply(
            f"the model does not compute on a part of the rows of its batch: {in_one_line(error)}"
        ) from error
    if len(found) == len(whole) and not _alike([rows_of_part(one, rows, part) for one in whole], found):
        raise CannotApply(DEPENDS)


def _results(trained: Trained, args: Any, kwargs: Any, seed: int) -> list[torch.Tensor]:
    """The tensors with rows that a copy of the model returns."""
    tried = copy.deepcopy(trained.model).eval()
    devices = [trained.device] if trained.device.type == "cuda" else []
    with trained.unwatched(), torch.no_grad(), torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        return [one for one in tensors_in_order(tried(*args, **kwargs)) if one.dim()]


def _alike(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return all(
        one.shape != other.shape
        or not one.is_floating_point()
        or not one.numel()
        or torch.allclose(one, other, CLOSE, CLOSE * float(one.abs().max()), equal_nan=True)
        for one, other in zip(some, others, strict=False)
    )
