"""Language models of the fresh set: a decoder of today, the same with few trained weights, and a translator."""

import torch
from torch import Tensor, nn

NORM_EPSILON = 1e-5
FAR = 16  # places that lie further apart share one bias


class Attention(nn.Module):
    """Causal attention with rotated places; several heads of queries share one head of keys and values."""

    def __init__(self, width: int, heads: int, shared: int) -> None:
        super().__init__()
        self.size = width // heads
        self.query = nn.Linear(width, heads * self.size, bias=False)
        self.key = nn.Linear(width, shared * self.size, bias=False)
        self.value = nn.Linear(width, shared * self.size, bias=False)
        self.out = nn.Linear(heads * self.size, width, bias=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """Rows as wide as those that came in."""
        query, key, value = (
            part(x).unflatten(2, (-1, self.size)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        query, key = rotated(query, angles), rotated(key, angles)
        times = query.shape[1] // key.shape[1]
        if times > 1:
            key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
        found = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(found.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def rotated(x: Tensor, angles: Tensor) -> Tensor:
    """Pairs of numbers turned by an angle that grows with the place."""
    even, odd = x.chunk(2, -1)
    cosine, sine = angles
    return torch.cat([even * cosine - odd * sine, even * sine + odd * cosine], -1)


class Gated(nn.Module):
    """Two layers side by side, one of which gates the other, and a third that narrows again."""

    def __init__(self, width: int, wide: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, wide, bias=False), nn.Linear(width, wide, bias=False)
        self.down = nn.Linear(wide, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Rows as wide as those that came in."""
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Attention and gated layers, each after a norm and beside a shortcut."""

    def __init__(self, width: int, heads: int, shared: int, wide: int) -> None:
        super().__init__()
        self.before, self.attention = nn.RMSNorm(width, NORM_EPSILON), Attention(width, heads, shared)
        self.between, self.feeding = nn.RMSNorm(width, NORM_EPSILON), Gated(width, wide)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """Rows as wide as those that came in."""
        x = x + self.attention(self.before(x), angles)
        return x + self.feeding(self.between(x))  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """A causal language model with RMSNorm, rotary places and SwiGLU; its head has weights of its own."""

    angles: Tensor

    def __init__(
        self, words: int, width: int, layers: int, heads: int, shared: int, wide: int, length: int = 64
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, shared, wide) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width, NORM_EPSILON), nn.Linear(width, words, bias=False)
        half = width // heads // 2
        each = torch.arange(length)[:, None] * 10_000.0 ** -(torch.arange(half) / half)
        self.register_buffer("angles", torch.stack([each.cos(), each.sin()]), persistent=False)
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=0.02)

    def forward(self, text: Tensor) -> Tensor:
        """Scores of every next word."""
        x = self.words(text)
        for layer in self.layers:
            x = layer(x, self.angles)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


class LowRank(nn.Module):
    """A layer that stays as it is, and a product of two narrow ones that is added to it."""

    def __init__(self, layer: nn.Linear, rank: int = 8, weight: float = 2.0) -> None:
        super().__init__()
        self.layer, self.weight = layer, weight
        self.narrow = nn.Linear(layer.in_features, rank, bias=False)
        self.widen = nn.Linear(rank, layer.out_features, bias=False)
        self.drop = nn.Dropout(0.05)
        nn.init.zeros_(self.widen.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Their sum."""
        return self.layer(x) + self.weight * self.widen(self.narrow(self.drop(x)))  # type: ignore[no-any-return]


def adapted(model: Decoder) -> Decoder:
    """The same decoder, of which only low-rank additions to queries and values are trained."""
    model.requires_grad_(False)
    for layer in model.layers:
        attention = layer.attention
        attention.query, attention.value = LowRank(attention.query), LowRank(attention.value)
    return model


class Heads(nn.Module):
    """Attention to another text or to the own one, with a bias for each distance."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor, other: Tensor, bias: Tensor | None) -> Tensor:
        """Rows as wide as those that came in."""
        query, key, value = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part in (self.query(x), self.key(other), self.value(other))
        )
        found = nn.functional.scaled_dot_product_attention(query, key, value, bias)
        return self.out(found.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class TranslatorLayer(nn.Module):
    """Attention to the own text, to the source if there is one, and gated layers."""

    def __init__(self, width: int, heads: int, wide: int, reads_source: bool) -> None:
        super().__init__()
        self.own, self.feeding = Heads(width, heads), Gated(width, wide)
        self.source = Heads(width, heads) if reads_source else None
        self.norms = nn.ModuleList(nn.RMSNorm(width, NORM_EPSILON) for _ in range(2 + reads_source))
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor, bias: Tensor, source: Tensor | None = None) -> Tensor:
        """Rows as wide as those that came in."""
        near = self.norms[0](x)
        x = x + self.drop(self.own(near, near, bias))
        if self.source is not None:
            x = x + self.drop(self.source(self.norms[2](x), source, None))
        return x + self.drop(self.feeding(self.norms[1](x)))  # type: ignore[no-any-return]


class Translator(nn.Module):
    """An encoder of one text and a decoder of another, which share their words."""

    def __init__(self, words: int = 1200, width: int = 128, layers: int = 2, heads: int = 4, wide: int = 320) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.distances = nn.ModuleList(nn.Embedding(2 * FAR + 1, heads) for _ in range(2))
        self.encoder = nn.ModuleList(TranslatorLayer(width, heads, wide, False) for _ in range(layers))
        self.decoder = nn.ModuleList(TranslatorLayer(width, heads, wide, True) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width, NORM_EPSILON) for _ in range(2))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, source: Tensor, text: Tensor) -> Tensor:
        """Scores of every next word of the text."""
        read, bias = self.words(source), self.bias(0, source.shape[1])
        for layer in self.encoder:
            read = layer(read, bias)
        read, x, bias = self.norms[0](read), self.words(text), self.bias(1, text.shape[1])
        later = torch.full(bias.shape[-2:], float("-inf")).triu(1)
        for layer in self.decoder:
            x = layer(x, bias + later, read)
        return self.head(self.norms[1](x))  # type: ignore[no-any-return]

    def bias(self, which: int, length: int) -> Tensor:
        """A number for each head and pair of places, by their distance."""
        place = torch.arange(length)
        apart = (place[None] - place[:, None]).clamp(-FAR, FAR) + FAR
        return self.distances[which](apart).permute(2, 0, 1)[None]  # type: ignore[no-any-return]


def layers_of(model: nn.Module) -> list[nn.Module]:
    """The layers of both halves of a translator."""
    assert isinstance(model, Translator)
    return [*model.encoder, *model.decoder]
