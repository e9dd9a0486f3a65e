"""What a person would write into a training loop to time it by hand, and the models and data of the timed loops."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH = 64


@dataclass
class Hand:
    """What a person would write into the script to time it; it waits for the device at both ends of a step."""

    device: str
    dim: int
    steps: list[float] = field(default_factory=list)
    loops: list[float] = field(default_factory=list)  # from the end of one step to the end of the next
    data: list[float] = field(default_factory=list)  # waited for data before each step
    _began: float = 0.0
    _ended: float = 0.0
    _waited: float = 0.0

    def now(self) -> float:
        """When the device has done what it was given."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def begin(self) -> None:
        """Before the first forward."""
        self._began = self.now()

    def end(self) -> None:
        """After the optimizer."""
        now = self.now()
        self.steps.append(now - self._began)
        self.loops.append(now - (self._ended or self._began))
        self.data.append(self._waited)
        self._ended, self._waited = now, 0.0

    def fetch(self, batches: Iterator[Any]) -> Any:
        """The next batch, on the device."""
        began = time.perf_counter()
        batch = next(batches)
        self._waited += time.perf_counter() - began
        return [part.to(self.device) for part in batch]

    def model(self, depth: int = 3, width: int = 0, last: int = 0) -> Any:
        """A stack of linear layers."""
        width = width or self.dim
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, last or width)).to(self.device)

    def batch(self, rows: int = BATCH) -> tuple[torch.Tensor, torch.Tensor]:
        """Made here, not loaded."""
        x = torch.randn(rows, self.dim, device=self.device)
        return x, x.roll(1, 1)


class Rows(Dataset[Any]):
    """Endless enough; each sample goes through the transform."""

    def __init__(self, dim: int, transform: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        self._x = torch.randn(512, dim)
        self._transform = transform

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> Any:
        x = self._x[index % 512]
        return (x if self._transform is None else self._transform(x)), x.roll(1, 0)


class Jitter(nn.Module):
    """A transform as torchvision and kornia have them: a module without parameters."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """With some arithmetic."""
        for _ in range(4):
            x = torch.tanh(x + 0.01 * torch.randn_like(x))
        return x


class Centres(nn.Module):
    """A loss with parameters."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(1, dim))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Distance to the centre."""
        return (features - self.centres).pow(2).mean()


def update(hand: Hand, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """The end of most loops."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    hand.end()


def loader(hand: Hand, **options: Any) -> Iterator[Any]:
    """Batches by a DataLoader without workers."""
    transform = options.pop("transform", None)
    return iter(DataLoader(Rows(hand.dim, transform), batch_size=BATCH, **options))
