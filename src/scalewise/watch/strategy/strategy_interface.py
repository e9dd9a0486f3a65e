"""Declares what a strategy is, what it is given, and how it says that it does not fit a script."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from scalewise.watch.strategy.stand_ins import Recorded, StandIn

Forward = Any  # what is called in place of the model: a module, most often


@dataclass(frozen=True)
class Trained:
    """The model that a script trains, at its first call, with everything a strategy may need to know."""

    model: nn.Module
    optimizers: tuple[Optimizer, ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    device: torch.device
    rank: int
    ranks: int
    unwatched: Callable[[], Any]  # a context for calls of modules that are no training


@dataclass(frozen=True)
class ModelCall:
    """One call of the model that is to be made part by part."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any  # stand-ins for its result
    autocast: tuple[bool, torch.dtype]


@dataclass(frozen=True)
class PassByParts:
    """The calls and the loss of a pass, for a strategy that makes forward and backward of all parts itself."""

    recorded: Recorded
    loss: StandIn
    calls: tuple[ModelCall, ...]
    look_at_loss: Callable[[torch.Tensor], None]

    @property
    def rows(self) -> int:
        """The number of rows of the batch."""
        return self.recorded.rows


@dataclass(frozen=True)
class Strategy:
    """A way to train on several ranks."""

    name: str  # of the change
    apply: Callable[[Trained], Forward]  # raises CannotApply
    divides: bool = True  # each rank takes its share of the batch; if not, every rank takes all of it
    micro_batches: int = 1  # into which a share is divided further
    hold_back: Callable[[Forward], Any] = lambda forward: contextlib.nullcontext()  # around all but the last of them
    # Makes the passes itself; returns for each part what it knows of the stand-ins, by number.
    passes: Callable[[Forward, PassByParts], list[dict[int, torch.Tensor]]] | None = None

    @property
    def by_parts(self) -> bool:
        """Tells whether passes are made when the script goes backward."""
        return self.micro_batches > 1 or self.passes is not None


class CannotApply(Exception):
    """Raised where a strategy does not fit a script; the text is the end of a sentence with "because"."""
