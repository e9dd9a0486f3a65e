"""What the models of `unseen_models.py` and `development_models.py` are described by, and how batches are made up."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, ...]


@dataclass(frozen=True)
class Subject:
    """A model, its data and how it is trained. `batch` is given the samples of one micro-batch of one rank."""

    family: str
    build: Callable[[], nn.Module]
    batch: Callable[[int], Batch]  # the inputs of the model, and the target last
    loss: Callable[[Tensor, Tensor], Tensor]
    samples: int  # of all ranks in one step
    optimizer: str = "SGD"
    accumulate: int = 1
    bucket_mb: float = 25.0
    sharded: bool = False  # by FSDP2
    split: bool = False  # tensor parallel: all ranks work on the same samples
    unused: bool = False  # parameters may be left without a gradient
    gathers: bool = False  # the outputs of all ranks
    clip: bool = False


def classes(count: int) -> Callable[[int], Tensor]:
    """Makes up labels."""
    return lambda samples: torch.randint(count, (samples,))


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
