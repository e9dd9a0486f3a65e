"""What the models of all sets (`unseen_sets.py`) are described by, and how batches are made up."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor.parallel import ParallelStyle

Batch = tuple[Tensor, ...]
Networks = Mapping[str, nn.Module]


@dataclass(frozen=True)
class Subject:
    """A model, its data and how it is trained. `batch` is given the samples of one micro-batch of one rank."""

    family: str
    build: Callable[[], nn.Module]
    batch: Callable[[int], Batch]  # the inputs of the model, and the target last
    loss: Callable[[Any, Tensor], Tensor]  # of what the model returns, and of the target
    samples: int  # of all ranks in one step
    optimizer: str = "SGD"
    settings: Mapping[str, Any] = field(default_factory=lambda: {"lr": 1e-3})  # of the optimizer
    accumulate: int = 1
    bucket_mb: float | None = 25.0  # None leaves it to torch, whose first bucket holds 1 MB and further ones 25 MB
    sharded: Callable[[nn.Module], Iterable[nn.Module]] | None = None  # by FSDP2: parts that are gathered one by one
    split: Mapping[str, ParallelStyle] = field(default_factory=dict)  # tensor parallel: all ranks share all samples
    unused: bool = False  # parameters may be left without a gradient
    gathers: bool = False  # the outputs of all ranks
    clip: bool = False
    average: float = 0.0  # the decay of an average of the weights that is kept beside them
    turns: Mapping[str, Callable[[Networks, Batch], Tensor]] = field(default_factory=dict)
    """Of several networks that train in turns, each with its own optimizer: their losses. `loss` is not asked then."""


def each_child(model: nn.Module) -> Iterable[nn.Module]:
    """The parts that a model names itself, if they have parameters."""
    return [child for child in model.children() if any(True for _ in child.parameters())]


def images(size: int, channels: int = 3, count: int = 10) -> Callable[[int], Batch]:
    """Makes up images with labels."""
    return lambda samples: (torch.randn(samples, channels, size, size), torch.randint(count, (samples,)))


def tokens(count: int, length: int) -> Callable[[int], Batch]:
    """Makes up texts; the target of each is the text itself."""

    def made(samples: int) -> Batch:
        text = torch.randint(count, (samples, length))
        return text, text

    return made


def of_tokens(scores: Tensor, target: Tensor) -> Tensor:
    """Cross entropy over all places of a text."""
    return nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())


def convolution(before: int, after: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution with BatchNorm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(before, after, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(after), nn.ReLU()
    )
