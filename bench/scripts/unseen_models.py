"""The validation set: models of many kinds on which nothing of the prediction was tuned. Families come in turn."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from unseen_parts import Batch, Subject, convolution, each_child, images, of_tokens, tokens


class Decoder(nn.Module):
    """A causal language model whose head shares the embedding's weights."""

    def __init__(self, words: int = 2000, width: int = 160, layers: int = 3, length: int = 48) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 5, 4 * width, 0.1, nn.functional.gelu, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.register_buffer("later", torch.full((length, length), float("-inf")).triu(1))

    def forward(self, text: Tensor) -> Tensor:
        """Scores of every next word."""
        x = self.words(text) + self.places.weight
        for layer in self.layers:
            x = layer(x, self.later)
        return x @ self.words.weight.t()


class Patches(nn.Module):
    """A vision transformer over patches of 8 x 8."""

    def __init__(self, width: int = 128, layers: int = 4, size: int = 48) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, 8, 8)
        self.place = nn.Parameter(torch.zeros((size // 8) ** 2, width))
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, 0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, picture: Tensor) -> Tensor:
        """Scores of ten classes."""
        x = self.cut(picture).flatten(2).transpose(1, 2) + self.place
        return self.head(self.layers(x).mean(1))  # type: ignore[no-any-return]


class Residual(nn.Module):
    """Two convolutions with BatchNorm beside a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = convolution(before, after, stride)
        self.second = nn.Sequential(nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after))
        self.short = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Their sum."""
        return torch.relu(self.second(self.first(x)) + self.short(x))


def residual() -> nn.Module:
    """A small residual net."""
    blocks = (Residual(24, 24, 1), Residual(24, 48, 2), Residual(48, 96, 2), Residual(96, 192, 2))
    return nn.Sequential(convolution(3, 24), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(192, 10))


def depthwise() -> nn.Module:
    """Convolutions of one channel each and of one pixel each, in turn."""
    widths = (16, 32, 64, 64, 128, 128)
    layers: list[nn.Module] = [convolution(3, 16, 2)]
    for before, after in itertools.pairwise(widths):
        layers += [convolution(before, before, 1, before), nn.Conv2d(before, after, 1), nn.GroupNorm(8, after)]
        layers += [nn.Hardswish()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))


class Segmenter(nn.Module):
    """A net that narrows a picture, widens it again, and looks at both."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.down = nn.ModuleList([convolution(3, width), convolution(width, 2 * width, 2)])
        self.bottom = convolution(2 * width, 4 * width, 2)
        self.up = nn.ModuleList([nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(64, width, 2, 2)])
        self.last = nn.Conv2d(2 * width, 5, 1)

    def forward(self, picture: Tensor) -> Tensor:
        """Scores of five classes at every pixel."""
        fine = self.down[0](picture)
        middle = self.down[1](fine)
        wide = torch.cat([self.up[0](self.bottom(middle)), middle], 1)
        return self.last(torch.cat([self.up[1](wide), fine], 1))  # type: ignore[no-any-return]


def pixels(samples: int) -> Batch:
    """Pictures with a class at every pixel."""
    return torch.randn(samples, 3, 32, 32), torch.randint(5, (samples, 32, 32))


class Recurrent(nn.Module):
    """An embedding, recurrent layers and a head."""

    def __init__(self, layers: nn.RNNBase, words: int, width: int) -> None:
        super().__init__()
        self.words, self.layers = nn.Embedding(words, width), layers
        self.head = nn.Linear(layers.hidden_size, words)

    def forward(self, text: Tensor) -> Tensor:
        """Scores of every next word."""
        found, _ = self.layers(self.words(text))
        return self.head(found)  # type: ignore[no-any-return]


def lengths(samples: int) -> Batch:
    """Texts of 12 to 40 words, another length in every step and on every rank."""
    text = torch.randint(300, (samples, int(torch.randint(12, 41, ()))))
    return text, text


class Recommender(nn.Module):
    """Four large embeddings and a few layers."""

    def __init__(self, rows: int = 40_000, width: int = 24) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(4))
        self.layers = nn.Sequential(nn.Linear(4 * width, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU())
        self.head = nn.Linear(128, 1)

    def forward(self, keys: Tensor) -> Tensor:
        """One score."""
        found = [table(keys[:, index]) for index, table in enumerate(self.tables)]
        return self.head(self.layers(torch.cat(found, 1)))[:, 0]  # type: ignore[no-any-return]


def clicks(samples: int) -> Batch:
    """Four keys, and whether somebody clicked."""
    return torch.randint(40_000, (samples, 4)), torch.rand(samples).round()


def tabular() -> nn.Module:
    """Layers with LayerNorm and dropout."""
    layers: list[nn.Module] = [nn.Linear(64, 512)]
    for _ in range(3):
        layers += [nn.LayerNorm(512), nn.GELU(), nn.Dropout(0.1), nn.Linear(512, 512)]
    return nn.Sequential(*layers, nn.Linear(512, 1), nn.Flatten(0))


class Experts(nn.Module):
    """A layer of four experts; each sample goes to one of them."""

    def __init__(self, width: int = 192, experts: int = 4) -> None:
        super().__init__()
        self.first, self.gate = nn.Linear(32, width), nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(experts)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of ten classes."""
        x = torch.relu(self.first(x))
        share, which = self.gate(x).softmax(1).max(1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            own = (which == index).nonzero()[:, 0]
            out = out.index_add(0, own, share[own, None] * expert(x[own]))
        return self.head(x + out)  # type: ignore[no-any-return]


def rows(samples: int) -> Batch:
    """Rows of 32 figures with a class."""
    return torch.randn(samples, 32), torch.randint(10, (samples,))


class Graph(nn.Module):
    """A graph network: every node takes the mean of its sixteen neighbours."""

    def __init__(self, width: int = 96, layers: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(32, width)
        self.layers = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.head = nn.Linear(width, 8)

    def forward(self, nodes: Tensor, neighbours: Tensor) -> Tensor:
        """Scores of eight classes for every node."""
        x = self.first(nodes)
        for layer in self.layers:
            near = torch.zeros_like(x).index_add(0, neighbours[0], x[neighbours[1]]) / 16
            x = torch.relu(layer(torch.cat([x, near], 1)))
        return self.head(x)  # type: ignore[no-any-return]


def graphs(samples: int) -> Batch:
    """A graph of so many nodes."""
    edges = torch.stack([torch.arange(samples).repeat(16), torch.randint(samples, (16 * samples,))])
    return torch.randn(samples, 32), edges, torch.randint(8, (samples,))


class Variational(nn.Module):
    """An autoencoder that draws its code."""

    def __init__(self, width: int = 20) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 4, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.code, self.back = nn.Linear(128 * width, 64), nn.Linear(32, 128 * width)
        self.decoder = nn.Sequential(
            nn.Unflatten(1, (2 * width, 8, 8)), nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(width, 1, 4, 2, 1),
        )  # fmt: skip

    def forward(self, picture: Tensor) -> Tensor:
        """The picture once more."""
        mean, spread = self.code(self.encoder(picture)).chunk(2, 1)
        return self.decoder(self.back(mean + torch.randn_like(mean) * spread.exp()))  # type: ignore[no-any-return]


def pictures(samples: int) -> Batch:
    """Pictures, each its own target."""
    picture = torch.rand(samples, 1, 32, 32)
    return picture, picture


class Mixer(nn.Module):
    """Layers over places and layers over channels, in turn."""

    def __init__(self, width: int = 128, places: int = 36, layers: int = 6) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, 8, 8)
        self.over_places = nn.ModuleList(nn.Linear(places, places) for _ in range(layers))
        self.over_channels = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.head = nn.Linear(width, 10)

    def forward(self, picture: Tensor) -> Tensor:
        """Scores of ten classes."""
        x = self.cut(picture).flatten(2)
        for place, channel in zip(self.over_places, self.over_channels, strict=True):
            x = x + nn.functional.gelu(place(x))
            x = x + nn.functional.gelu(channel(x.transpose(1, 2))).transpose(1, 2)
        return self.head(x.mean(2))  # type: ignore[no-any-return]


def agreement(one: Tensor, other: Tensor) -> Tensor:
    """How well each row of one picks out its own row of the other."""
    near = nn.functional.normalize(one, dim=1) @ nn.functional.normalize(other, dim=1).t()
    return nn.functional.cross_entropy(near / 0.1, torch.arange(len(one)) % len(other))


def pairs(samples: int) -> Batch:
    """Rows, and what each should resemble."""
    return torch.randn(samples, 256), torch.randn(samples, 64)


def towers() -> nn.Module:
    """Layers that end in a short row."""
    return nn.Sequential(nn.Linear(256, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 64))


class Feeding(nn.Module):
    """Two layers whose parts lie on different ranks: the first by columns, the second by rows."""

    def __init__(self, width: int, wide: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, wide), nn.Linear(wide, width)

    def forward(self, x: Tensor) -> Tensor:
        """Rows as wide as those that came in."""
        return self.down(nn.functional.gelu(self.up(x)))  # type: ignore[no-any-return]


def rows_of(width: int) -> Callable[[int], Batch]:
    """Rows, and what they are to become."""
    return lambda samples: (torch.randn(samples, width), torch.randn(samples, width))


MSE = nn.functional.mse_loss
ENTROPY, BINARY = nn.functional.cross_entropy, nn.functional.binary_cross_entropy_with_logits
PLAN = {"up": ColwiseParallel(), "down": RowwiseParallel()}
SUBJECTS = {
    "decoder": Subject("transformer", Decoder, tokens(2000, 48), of_tokens, 16, "AdamW", clip=True),
    "residual": Subject("convolution", residual, images(24), ENTROPY, 48),
    "lstm": Subject(
        "recurrent", lambda: Recurrent(nn.LSTM(96, 160, 2, batch_first=True), 1500, 96), tokens(1500, 32), of_tokens,
        32, "Adam", clip=True,
    ),
    "recommender": Subject("embedding", Recommender, clicks, BINARY, 4096, "Adagrad"),
    "tabular": Subject("layers", tabular, lambda n: (torch.randn(n, 64), torch.rand(n).round()), BINARY, 1024,
                       "AdamW", accumulate=4),
    "experts": Subject("experts", Experts, rows, ENTROPY, 2048, "AdamW", unused=True),
    "graph": Subject("graph", Graph, graphs, ENTROPY, 4096, "Adam"),
    "variational": Subject("autoencoder", Variational, pictures, BINARY, 192, "Adam"),
    "patches": Subject("transformer", Patches, images(48), ENTROPY, 32, "AdamW", bucket_mb=1),
    "depthwise": Subject("convolution", depthwise, images(32), ENTROPY, 32, "RMSprop"),
    "varying": Subject(
        "recurrent", lambda: Recurrent(nn.GRU(64, 192, batch_first=True), 300, 64), lengths, of_tokens, 64, "Adam"
    ),
    "mixer": Subject("layers", Mixer, images(48), ENTROPY, 64, bucket_mb=0.1),
    "sharded": Subject("transformer", lambda: Patches(192, 2), images(48), ENTROPY, 32, "AdamW", sharded=each_child),
    "towers": Subject("layers", towers, pairs, agreement, 1024, gathers=True),
    "segmenter": Subject("convolution", Segmenter, pixels, ENTROPY, 64, "Adam"),
    "split": Subject("tensor parallel", lambda: Feeding(512, 2048), rows_of(512), MSE, 256, split=PLAN),
}  # fmt: skip
