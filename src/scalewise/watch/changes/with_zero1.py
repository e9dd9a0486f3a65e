"""Trains a script for one device with DDP and ZeroRedundancyOptimizer, which divides the optimizer's state."""

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.changes.with_ddp import wrapped
from scalewise.watch.recorder import Recorder
from scalewise.watch.strategy.single_device import SingleDevice
from scalewise.watch.strategy.strategy_interface import CannotApply, Strategy, Trained

NAME = "with_zero1"
CHANGE = Declared(least_ranks=2, strategies={"ZeRO-1": "with_zero1"})


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps the model, and lets the steps of the script's optimizers be made by others."""
    SingleDevice(recorder, Strategy(NAME, partial(_applied, recorder)))


def _applied(recorder: Recorder, trained: Trained) -> Any:
    for optimizer in trained.optimizers:
        _divide(optimizer)
    return wrapped(recorder, NAME, trained)


def _divide(optimizer: Optimizer) -> None:
    """Has another optimizer make this one's steps; both share their groups, so that schedulers reach it."""
    from torch.distributed.optim import ZeroRedundancyOptimizer  # compiles scripts when it is imported, with a warning

    made: Any = type(optimizer)
    taken = inspect.signature(made.__init__).parameters
    settings = {name: value for name, value in optimizer.defaults.items() if name in taken}
    missing = [
        name
        for name, one in list(taken.items())[2:]
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD and name not in settings
    ]
    if optimizer.state or missing:
        why = f"it takes {', '.join(missing)}, which it does not keep" if missing else "it has state already"
        raise CannotApply(f"{made.__name__} cannot be made again for a part of the parameters: {why}")
    groups: Any = [dict(group) for group in optimizer.param_groups]
    parts = ZeroRedundancyOptimizer(groups, optimizer_class=made, **settings)
    optimizer.param_groups = parts.param_groups

    def step(closure: Any = None, **kwargs: Any) -> Any:
        optimizer._opt_called = True  # type: ignore[attr-defined]  # as a scheduler of torch's wants to see it
        return parts.step(closure, **kwargs)

    optimizer.step = step  # type: ignore[method-assign]
