"""Keeps optimizers at the parameters of their model where a strategy replaces these by others."""

import contextlib
from collections.abc import Iterator

from scalewise.watch.strategy.strategy_interface import CannotApply, Trained


@contextlib.contextmanager
def swapped_parameters(trained: Trained) -> Iterator[None]:
    """Gives the optimizers the new parameter of each name, in place of the one that had it before."""
    for optimizer in trained.optimizers:
        if optimizer.state:
            raise CannotApply(f"{type(optimizer).__name__} has state before its first step, of whole parameters")
    before = {id(one): name for name, one in trained.model.named_parameters(remove_duplicate=False)}
    yield
    after = dict(trained.model.named_parameters(remove_duplicate=False))
    for optimizer in trained.optimizers:
        for group in optimizer.param_groups:
            group["params"] = [after[before[id(one)]] for one in group["params"]]
