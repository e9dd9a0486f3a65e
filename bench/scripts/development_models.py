"""The development set: models on which the prediction may be tuned, of the same families as the validation set."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from unseen_parts import Batch, Subject, convolution, each_child, images, of_tokens, tokens


class Encoder(nn.Module):
    """A transformer with a head of its own."""

    def __init__(self, words: int = 1000, width: int = 192, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, text: Tensor) -> Tensor:
        """Scores of every word."""
        return self.head(self.layers(self.words(text)))  # type: ignore[no-any-return]


def stacked() -> nn.Module:
    """Convolutions with BatchNorm, one after another."""
    body = (convolution(3, 32), convolution(32, 64, 2), convolution(64, 64), convolution(64, 128, 2))
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


class Memory(nn.Module):
    """An LSTM over figures."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.head = nn.LSTM(64, 256, batch_first=True), nn.Linear(256, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of ten classes."""
        found, _ = self.layers(x)
        return self.head(found[:, -1])  # type: ignore[no-any-return]


class Lookup(nn.Module):
    """One large embedding, summed over eight keys, and a few layers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(40_000, 48)
        self.layers = nn.Sequential(nn.Linear(48, 256), nn.ReLU(), nn.Linear(256, 1), nn.Flatten(0))

    def forward(self, keys: Tensor) -> Tensor:
        """One score."""
        return self.layers(self.table(keys).sum(1))  # type: ignore[no-any-return]


def perceptron(width: int, depth: int) -> nn.Module:
    """Layers of one width."""
    return nn.Sequential(*[layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())])


class Neighbours(nn.Module):
    """A graph network over one dense matrix of neighbours for each small graph."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.head = nn.Linear(64, 4)

    def forward(self, nodes: Tensor, near: Tensor) -> Tensor:
        """Scores of four classes for every graph."""
        for layer in self.layers:
            nodes = torch.relu(layer(near @ nodes))
        return self.head(nodes.mean(1))  # type: ignore[no-any-return]


def molecules(samples: int) -> Batch:
    """Graphs of 48 nodes."""
    near = (torch.rand(samples, 48, 48) < 0.1).float()
    return torch.randn(samples, 48, 64), near, torch.randint(4, (samples,))


def squeezed() -> nn.Module:
    """Layers that grow narrow and wide again."""
    widths = (784, 512, 128, 512, 784)
    return nn.Sequential(*[part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())])


def own(width: int) -> Callable[[int], Batch]:
    """Rows that are their own target."""

    def made(samples: int) -> Batch:
        x = torch.rand(samples, width)
        return x, x

    return made


MSE, ENTROPY = nn.functional.mse_loss, nn.functional.cross_entropy
SUBJECTS = {
    "encoder": Subject("transformer", Encoder, tokens(1000, 48), of_tokens, 16, "AdamW", bucket_mb=4),
    "stacked": Subject("convolution", stacked, images(24), ENTROPY, 96),
    "memory": Subject(
        "recurrent", Memory, lambda n: (torch.randn(n, 24, 64), torch.randint(10, (n,))), ENTROPY, 160, "Adam"
    ),
    "lookup": Subject(
        "embedding", Lookup, lambda n: (torch.randint(40_000, (n, 8)), torch.rand(n).round()),
        nn.functional.binary_cross_entropy_with_logits, 4096, "SGD",
    ),
    "accumulated": Subject("layers", lambda: perceptron(512, 4), own(512), MSE, 1024, accumulate=4),
    "wide": Subject("layers", lambda: perceptron(1024, 2), own(1024), MSE, 512, "Adam"),
    "neighbours": Subject("graph", Neighbours, molecules, ENTROPY, 256, "Adam"),
    "squeezed": Subject("autoencoder", squeezed, own(784), MSE, 512, "Adam", bucket_mb=1),
    "parted": Subject("layers", lambda: perceptron(512, 4), own(512), MSE, 1024, "AdamW", sharded=each_child),
}  # fmt: skip
