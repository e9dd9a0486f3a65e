"""Finds the parameters that take no part in what a model returns: they get no gradient, for which DDP would wait."""

import copy
from typing import Any

import torch

from scalewise.watch.strategy.stand_ins import tensors_in_order
from scalewise.watch.strategy.strategy_interface import Trained


def unused_parameters(trained: Trained) -> tuple[str, ...]:
    """The names of the parameters that a copy of the model did not use on the batch of its first call.

    Empty if all are used, or if that cannot be seen: a model that cannot be copied, or that computes its layers again
    in the backward pass.
    """
    devices = [trained.device] if trained.device.type == "cuda" else []
    try:
        tried = copy.deepcopy(trained.model)
        with trained.unwatched(), torch.random.fork_rng(devices=devices):
            used = _used(tensors_in_order(tried(*trained.args, **trained.kwargs)))
    except Exception:  # the script's own call of its model will say what is wrong with it
        return ()
    if used is None:
        return ()
    pairs = zip(tried.named_parameters(), trained.model.parameters(), strict=True)
    # A function that the model made for itself, such as a lambda, still uses the parameters of the model in a copy.
    return tuple(name for (name, one), own in pairs if one.requires_grad and not {id(one), id(own)} & used)


def _used(results: list[torch.Tensor]) -> set[int] | None:
    """The parameters from which these results were computed; None if the graph does not say so."""
    waiting: list[Any] = [one.grad_fn for one in results if one.grad_fn is not None]
    if not waiting:
        return None
    seen, used = set(waiting), set()
    while waiting:
        node = waiting.pop()
        if node.name().startswith("CheckpointFunction"):
            return None
        if hasattr(node, "variable"):
            used.add(id(node.variable))
        new = {child for child, _ in node.next_functions if child is not None} - seen
        seen |= new
        waiting += new
    return used
