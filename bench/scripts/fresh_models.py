"""The fresh set: models as people train them, written without reading how the prediction works.

Nothing is tuned on them. They are of other families than those of `unseen_models.py` and `development_models.py`, or
train in other ways. Buckets are torch's own, unless a model says otherwise.
"""

from functools import partial

import torch
from fresh_language import Decoder, Translator, adapted, layers_of
from fresh_signals import Cloud, Denoiser, Listener, TwoViews, Waves, judge, judged, painted, painter, wide_blocks
from torch import Tensor, nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from unseen_parts import Batch, images, of_tokens
from unseen_parts import Subject as AnySubject

Subject = partial(AnySubject, bucket_mb=None)
NOTHING = torch.empty(0)  # the target of models that compare by themselves
TABLES = (30_000, 20_000, 12_000, 6_000, 3_000, 1_000, 300, 50)  # rows of the recommender's tables
COLUMNS = (12, 7, 40, 9, 16, 5, 24, 60, 3, 11)  # how many values each column of a table has


def following(words: int, length: int) -> partial[Batch]:
    """Makes texts in which every word follows from the one before, now and then from chance."""
    return partial(_following, words, length)


def _following(words: int, length: int, samples: int) -> Batch:
    text = torch.randint(words, (samples, length + 1))
    for place in range(1, length + 1):
        usual = torch.rand(samples) < 0.8
        text[usual, place] = (3 * text[usual, place - 1] + 1) % words
    return text[:, :-1], text[:, 1:]


def sentences(samples: int) -> Batch:
    """Texts, what stands in the translation so far, and the translation, which is the text read backwards."""
    source = torch.randint(2, 1200, (samples, 40))
    target = source.flip(1)
    return source, nn.functional.pad(target[:, :-1], (1, 0)), target


def codes(samples: int) -> Batch:
    """Random numbers to paint from, and real pictures."""
    return torch.randn(samples, 64), smooth(samples, 32)


def pictures(samples: int) -> Batch:
    """Pictures of 16 x 16."""
    return smooth(samples, 16), NOTHING


def smooth(samples: int, size: int) -> Tensor:
    """Pictures whose colours change slowly."""
    return nn.functional.interpolate(torch.randn(samples, 3, 4, 4), (size, size), mode="bilinear").tanh()


def views(samples: int) -> Batch:
    """Two noisy views of each picture, one of them mirrored."""
    picture = torch.randn(samples, 3, 24, 24)
    return picture + 0.2 * torch.randn_like(picture), picture.flip(3) + 0.2 * torch.randn_like(picture), NOTHING


def spoken(samples: int) -> Batch:
    """Sound of 64 bands at 96 moments; letters, filled up with 0, and last how many there are."""
    letters, count = torch.randint(1, 29, (samples, 12)), torch.randint(6, 13, (samples, 1))
    return torch.randn(samples, 64, 96), torch.cat([letters * (torch.arange(12) < count), count], 1)


def of_letters(shares: Tensor, target: Tensor) -> Tensor:
    """The loss of letters whose moments nobody knows."""
    moments = torch.full((len(target),), len(shares))
    return nn.functional.ctc_loss(shares, target[:, :-1], moments, target[:, -1], zero_infinity=True)


def waves(samples: int) -> Batch:
    """Sines of different heights as loudness, and the next loudness."""
    pitch, moment = 0.02 + 0.2 * torch.rand(samples, 1), torch.arange(401)
    wave = ((torch.sin(pitch * moment) + 0.1 * torch.randn(samples, 401)) * 50 + 64).clamp(0, 127).long()
    return wave[:, :-1], wave[:, 1:]


def clouds(samples: int) -> Batch:
    """Clouds of 256 points, stretched as their class says."""
    label = torch.randint(16, (samples,))
    stretch = 0.5 + torch.stack([label % 4, label // 4, torch.ones_like(label)], 1)[:, :, None] / 4
    return torch.randn(samples, 3, 256) * stretch, label


def of_clouds(found: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    """Cross entropy, and how far the matrices are from turning only."""
    scores, matrices = found
    off = matrices @ matrices.transpose(1, 2) - torch.eye(matrices.shape[1])
    return nn.functional.cross_entropy(scores, target) + 1e-3 * off.square().sum((1, 2)).mean()


class Attentive(nn.Module):
    """A layer of a graph network in which each node weighs its neighbours."""

    def __init__(self, before: int, heads: int, size: int) -> None:
        super().__init__()
        self.heads, self.layer = heads, nn.Linear(before, heads * size, bias=False)
        self.sender, self.receiver = (nn.Parameter(0.1 * torch.randn(heads, size)) for _ in range(2))
        self.short, self.drop = nn.Linear(before, heads * size), nn.Dropout(0.1)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """New features of all nodes."""
        x, (to, source) = self.layer(nodes).unflatten(1, (self.heads, -1)), edges
        toward, away = (x * self.receiver).sum(2), (x * self.sender).sum(2)
        score = nn.functional.leaky_relu(toward[to] + away[source], 0.2)
        weight = (score - score.detach().amax(0)).exp()
        whole = torch.zeros_like(toward).index_add(0, to, weight)
        message = x[source] * self.drop(weight / (whole[to] + 1e-9))[:, :, None]
        return torch.zeros_like(x).index_add(0, to, message).flatten(1) + self.short(nodes)  # type: ignore[no-any-return]


class AttentiveGraph(nn.Module):
    """Three such layers."""

    def __init__(self, features: int = 50, labels: int = 24) -> None:
        super().__init__()
        self.first, self.second = Attentive(features, 4, 32), Attentive(128, 4, 32)
        self.last = Attentive(128, 1, labels)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """Scores of several labels for every node."""
        x = nn.functional.elu(self.first(nodes, edges))
        return self.last(nn.functional.elu(self.second(x, edges)), edges)  # type: ignore[no-any-return]


def graph(samples: int) -> Batch:
    """A graph of so many nodes, each with six neighbours and itself; labels follow from the features."""
    nodes, node = torch.randn(samples, 50), torch.arange(samples)
    edges = torch.cat([torch.stack([node.repeat(6), torch.randint(samples, (6 * samples,))]), node.repeat(2, 1)], 1)
    return nodes, edges, (nodes[:, :24] > 0.5).float()


class Interactions(nn.Module):
    """A recommender: tables of very different length, every pair of what they give, and layers before and after."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for rows in TABLES)
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, width))
        pairs = (len(TABLES) + 1) * len(TABLES) // 2
        self.top = nn.Sequential(
            nn.Linear(pairs + width, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1), nn.Flatten(0)
        )

    def forward(self, figures: Tensor, keys: Tensor) -> Tensor:
        """One score."""
        dense = self.bottom(figures)
        found = torch.stack([dense, *(table(keys[:, index]) for index, table in enumerate(self.tables))], 1)
        row, column = torch.tril_indices(found.shape[1], found.shape[1], -1)
        pairs = torch.bmm(found, found.transpose(1, 2))[:, row, column]
        return self.top(torch.cat([dense, pairs], 1))  # type: ignore[no-any-return]


def shown(samples: int) -> Batch:
    """Figures, three keys for each table, the first ones most often, and whether somebody clicked."""
    figures = torch.randn(samples, 13)
    keys = (torch.rand(samples, len(TABLES), 3) ** 3 * torch.tensor(TABLES)[:, None]).long()
    return figures, keys, (figures.mean(1) + 0.3 * torch.randn(samples) > 0).float()


class Columns(nn.Module):
    """Attention between the columns of a table, and layers over them and the figures beside."""

    first: Tensor

    def __init__(self, width: int = 32, figures: int = 8) -> None:
        super().__init__()
        self.values = nn.Embedding(sum(COLUMNS), width)
        self.register_buffer("first", torch.tensor([0, *COLUMNS[:-1]]).cumsum(0))
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, 0.1, nn.functional.gelu, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.norm, both = nn.LayerNorm(figures), len(COLUMNS) * width + figures
        self.head = nn.Sequential(
            nn.Linear(both, 4 * both), nn.SELU(), nn.Linear(4 * both, both), nn.SELU(), nn.Linear(both, 1)
        )

    def forward(self, named: Tensor, figures: Tensor) -> Tensor:
        """One score."""
        x = self.layers(self.values(named + self.first)).flatten(1)
        return self.head(torch.cat([x, self.norm(figures)], 1))[:, 0]  # type: ignore[no-any-return]


def customers(samples: int) -> Batch:
    """Values of ten columns, eight figures, and whether the customer stayed."""
    named = (torch.rand(samples, len(COLUMNS)) * torch.tensor(COLUMNS)).long()
    figures = torch.randn(samples, 8)
    return named, figures, (figures[:, 0] + (named[:, 1] - 3) / 3 > 0).float()


def split_layers() -> dict[str, ColwiseParallel | RowwiseParallel]:
    """Which parts of each layer of a decoder lie on the ranks by columns, and which by rows."""
    columns = ("attention.query", "attention.key", "attention.value", "feeding.gate", "feeding.up")
    rows = ("attention.out", "feeding.down")
    return {f"layers.*.{name}": kind() for names, kind in ((columns, ColwiseParallel), (rows, RowwiseParallel))
            for name in names}  # fmt: skip


ENTROPY, BINARY = nn.functional.cross_entropy, nn.functional.binary_cross_entropy_with_logits
LANGUAGE = {"lr": 1e-3, "betas": (0.9, 0.95), "weight_decay": 0.1}
SUBJECTS = {
    "llama": Subject(
        "language model", lambda: Decoder(1024, 160, 3, 5, 1, 448), following(1024, 64), of_tokens, 16, "AdamW",
        LANGUAGE, accumulate=2, clip=True,
    ),
    "diffusion": Subject(
        "diffusion", Denoiser, pictures, lambda found, _: nn.functional.mse_loss(*found), 32, "AdamW", {"lr": 2e-4},
        clip=True, average=0.999,
    ),
    "speech": Subject(
        "speech", Listener, spoken, of_letters, 16, "SGD", {"lr": 3e-3, "momentum": 0.9, "nesterov": True}, clip=True
    ),
    "ranking": Subject("recommender", Interactions, shown, BINARY, 2048, "SGD", {"lr": 0.1}),
    "adversarial": Subject(
        "adversarial", lambda: nn.ModuleDict({"judge": judge(), "painter": painter()}), codes, BINARY, 32, "Adam",
        {"lr": 2e-4, "betas": (0.5, 0.999)}, turns={"judge": judged, "painter": painted},
    ),
    "attentive": Subject("graph attention", AttentiveGraph, graph, BINARY, 4096, "Adam", {"lr": 5e-3}),
    "adapted": Subject(
        "fine-tuning", lambda: adapted(Decoder(1024, 192, 4, 6, 6, 512)), following(1024, 64), of_tokens, 8, "AdamW",
        {"lr": 2e-3},
    ),
    "points": Subject("point cloud", Cloud, clouds, of_clouds, 32, "Adam", {"lr": 1e-3}),
    "translator": Subject(
        "encoder-decoder", Translator, sentences, of_tokens, 8, "AdamW", {"lr": 1e-3}, sharded=layers_of, clip=True
    ),
    "views": Subject(
        "self-supervised", TwoViews, views, lambda found, _: -found.mean(), 24, "SGD",
        {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4},
    ),
    "columns": Subject("table", Columns, customers, BINARY, 256, "NAdam", {"lr": 1e-3}),
    "waves": Subject(
        "sound", Waves, waves, lambda found, target: ENTROPY(found, target), 8, "Adam", {"lr": 1e-3}, bucket_mb=0.25
    ),
    "wide_blocks": Subject(
        "modern convolution", wide_blocks, images(32, count=20), partial(ENTROPY, label_smoothing=0.1), 32, "AdamW",
        {"lr": 2e-3, "weight_decay": 0.05},
    ),
    "split_decoder": Subject(
        "tensor parallel", lambda: Decoder(512, 192, 2, 8, 8, 512), following(512, 64), of_tokens, 8, "Adam",
        {"lr": 1e-3}, split=split_layers(),
    ),
}  # fmt: skip
