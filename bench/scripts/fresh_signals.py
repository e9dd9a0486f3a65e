"""Models of pictures, sound and points of the fresh set."""

import itertools
from collections.abc import Mapping

import torch
from torch import Tensor, nn

NOISE_LEVELS = 200


class TimedBlock(nn.Module):
    """Two convolutions beside a shortcut, told how noisy the picture is."""

    def __init__(self, before: int, after: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(8, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1))
        self.time = nn.Linear(time, after)
        self.second = nn.Sequential(
            nn.GroupNorm(8, after), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(after, after, 3, padding=1)
        )
        self.short = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Their sum."""
        return self.second(self.first(x) + self.time(time)[:, :, None, None]) + self.short(x)  # type: ignore[no-any-return]


class Looking(nn.Module):
    """Attention of every pixel to all others, beside a shortcut."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(8, width), heads
        self.inwards, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Pictures as large as those that came in."""
        query, key, value = (
            part.flatten(2).unflatten(1, (self.heads, -1)).transpose(2, 3)
            for part in self.inwards(self.norm(x)).chunk(3, 1)
        )
        found = nn.functional.scaled_dot_product_attention(query, key, value)
        return x + self.out(found.transpose(2, 3).reshape(x.shape))  # type: ignore[no-any-return]


class Denoiser(nn.Module):
    """Foresees the noise in noisy pictures; draws the noise itself."""

    kept: Tensor

    def __init__(self, width: int = 32, time: int = 128) -> None:
        super().__init__()
        self.frequencies = nn.Buffer(10_000.0 ** -(torch.arange(width) / width), persistent=False)
        self.time = nn.Sequential(nn.Linear(2 * width, time), nn.SiLU(), nn.Linear(time, time), nn.SiLU())
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([TimedBlock(width, width, time), TimedBlock(width, 2 * width, time)])
        self.shrink = nn.ModuleList(nn.Conv2d(size, size, 3, 2, 1) for size in (width, 2 * width))
        self.middle = nn.ModuleList(TimedBlock(2 * width, 2 * width, time) for _ in range(2))
        self.looking = Looking(2 * width)
        self.grow = nn.ModuleList(nn.Conv2d(size, size, 3, padding=1) for size in (2 * width, width))
        self.up = nn.ModuleList([TimedBlock(4 * width, width, time), TimedBlock(2 * width, width, time)])
        self.last = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))
        self.kept = nn.Buffer((1 - torch.linspace(1e-4, 0.05, NOISE_LEVELS)).cumprod(0), persistent=False)

    def forward(self, picture: Tensor) -> tuple[Tensor, Tensor]:
        """The noise as foreseen, and as it was."""
        level = torch.randint(NOISE_LEVELS, (len(picture),))
        noise, kept = torch.randn_like(picture), self.kept[level][:, None, None, None]
        angles = level[:, None] * self.frequencies
        time = self.time(torch.cat([angles.cos(), angles.sin()], 1))
        x, beside = self.first(kept.sqrt() * picture + (1 - kept).sqrt() * noise), []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            beside.append(block(x, time))
            x = shrink(beside[-1])
        x = self.middle[1](self.looking(self.middle[0](x, time)), time)
        for block, grow in zip(self.up, self.grow, strict=True):
            x = grow(nn.functional.interpolate(x, scale_factor=2.0))
            x = block(torch.cat([x, beside.pop()], 1), time)
        return self.last(x), noise


def painter(width: int = 48, code: int = 64) -> nn.Module:
    """Pictures of 32 x 32 out of random numbers."""
    layers: list[nn.Module] = [
        nn.Unflatten(1, (code, 1, 1)), nn.ConvTranspose2d(code, 4 * width, 4, bias=False), nn.BatchNorm2d(4 * width),
        nn.ReLU(),
    ]  # fmt: skip
    for before, after in itertools.pairwise((4 * width, 2 * width, width)):
        layers += [nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())


def judge(width: int = 24) -> nn.Module:
    """How real a picture looks."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise((3, width, 2 * width, 4 * width)):
        layers += [nn.Conv2d(before, after, 4, 2, 1), nn.LeakyReLU(0.2), nn.Dropout2d(0.3)]
    return nn.Sequential(*layers, nn.Conv2d(4 * width, 1, 4), nn.Flatten(0))


def judged(networks: Mapping[str, nn.Module], batch: tuple[Tensor, ...]) -> Tensor:
    """The loss of a judge of real and painted pictures."""
    codes, real = batch
    with torch.no_grad():
        painted = networks["painter"](codes)
    scores = networks["judge"](torch.cat([real, painted]))
    wanted = torch.cat([torch.full((len(real),), 0.9), torch.zeros(len(painted))])
    return nn.functional.binary_cross_entropy_with_logits(scores, wanted)


def painted(networks: Mapping[str, nn.Module], batch: tuple[Tensor, ...]) -> Tensor:
    """The loss of a painter whose pictures are judged."""
    scores = networks["judge"](networks["painter"](batch[0]))
    return nn.functional.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))


class Bottleneck(nn.Module):
    """A narrow convolution between two of one pixel, beside a shortcut."""

    def __init__(self, before: int, narrow: int, stride: int) -> None:
        super().__init__()
        after = 4 * narrow
        self.layers = nn.Sequential(
            nn.Conv2d(before, narrow, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(inplace=True),
            nn.Conv2d(narrow, narrow, 3, stride, 1, bias=False), nn.BatchNorm2d(narrow), nn.ReLU(inplace=True),
            nn.Conv2d(narrow, after, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """Their sum."""
        return torch.relu(self.layers(x) + self.short(x))


class TwoViews(nn.Module):
    """Learns without labels that two views of one picture belong together."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        blocks = (Bottleneck(32, 16, 1), Bottleneck(64, 32, 2), Bottleneck(128, 64, 2))
        first = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True))
        self.encoder = nn.Sequential(first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.project = nn.Sequential(
            nn.Linear(256, width, bias=False), nn.BatchNorm1d(width), nn.ReLU(inplace=True),
            nn.Linear(width, width, bias=False), nn.BatchNorm1d(width, affine=False),
        )  # fmt: skip
        self.foresee = nn.Sequential(
            nn.Linear(width, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU(inplace=True), nn.Linear(64, width)
        )

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """How near each view's forecast lies to the other view."""
        first, second = self.project(self.encoder(one)), self.project(self.encoder(other))
        near = nn.functional.cosine_similarity
        return (near(self.foresee(first), second.detach()) + near(self.foresee(second), first.detach())) / 2


class WideBlock(nn.Module):
    """A convolution of 7 x 7 for each channel and layers over channels, beside a shortcut that is sometimes alone."""

    def __init__(self, width: int, alone: float) -> None:
        super().__init__()
        self.spread, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale, self.alone = nn.Parameter(torch.full((width,), 1e-2)), alone

    def forward(self, x: Tensor) -> Tensor:
        """Their sum."""
        found = self.layers(self.norm(self.spread(x).permute(0, 2, 3, 1))) * self.scale
        stays = (torch.rand(len(x), 1, 1, 1) >= self.alone) / (1 - self.alone)
        return x + found.permute(0, 3, 1, 2) * stays  # type: ignore[no-any-return]


def wide_blocks(widths: tuple[int, ...] = (48, 96, 192), depth: int = 2) -> nn.Module:
    """Classes of pictures of 32 x 32."""
    layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 2, 2), nn.GroupNorm(1, widths[0])]
    for index, width in enumerate(widths):
        if index:
            layers += [nn.GroupNorm(1, widths[index - 1]), nn.Conv2d(widths[index - 1], width, 2, 2)]
        layers += [WideBlock(width, 0.05 * index) for _ in range(depth)]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], 20)
    )


class Listener(nn.Module):
    """Convolutions over frequencies and time, recurrent layers both ways, and letters of every moment."""

    def __init__(self, bands: int = 64, channels: int = 16, width: int = 128, letters: int = 29) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, channels, (11, 5), (2, 2), (5, 2)), nn.BatchNorm2d(channels), nn.Hardtanh(0, 20),
            nn.Conv2d(channels, channels, (11, 5), (2, 1), (5, 2)), nn.BatchNorm2d(channels), nn.Hardtanh(0, 20),
        )  # fmt: skip
        self.layers = nn.GRU(channels * bands // 4, width, 2, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.LayerNorm(2 * width), nn.Linear(2 * width, letters))

    def forward(self, sound: Tensor) -> Tensor:
        """Logarithms of the shares of all letters, moments first."""
        x = self.convolutions(sound[:, None]).flatten(1, 2).transpose(1, 2)
        found, _ = self.layers(x)
        return self.head(found).log_softmax(2).transpose(0, 1)  # type: ignore[no-any-return]


class Waves(nn.Module):
    """Gated causal convolutions whose steps double, and the next of 128 loudnesses."""

    def __init__(self, width: int = 40, levels: int = 128, stacks: int = 2, doublings: int = 5) -> None:
        super().__init__()
        self.steps = [2**power for _ in range(stacks) for power in range(doublings)]
        self.first = nn.Embedding(levels, width)
        self.gated = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=step) for step in self.steps)
        self.out = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in self.steps)
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, levels, 1))

    def forward(self, wave: Tensor) -> Tensor:
        """Scores of every next loudness."""
        x = self.first(wave).transpose(1, 2)
        whole = torch.zeros_like(x)
        for step, gated, out in zip(self.steps, self.gated, self.out, strict=True):
            one, other = gated(nn.functional.pad(x, (step, 0))).chunk(2, 1)
            more, kept = out(one.tanh() * other.sigmoid()).chunk(2, 1)
            x, whole = x + more, whole + kept
        return self.head(whole)  # type: ignore[no-any-return]


def pointwise(*widths: int) -> nn.Sequential:
    """Layers that look at each point alone."""
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Conv1d(before, after, 1), nn.BatchNorm1d(after), nn.ReLU()]
    return nn.Sequential(*layers)


class Turned(nn.Module):
    """Finds a matrix by which a cloud of points is turned."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.points = size, pointwise(size, 32, 64, 256)
        last = nn.Linear(128, size * size)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), last)

    def forward(self, x: Tensor) -> Tensor:
        """A matrix for each cloud."""
        found = self.layers(self.points(x).amax(2))
        return torch.eye(self.size) + found.unflatten(1, (self.size, self.size))  # type: ignore[no-any-return]


class Cloud(nn.Module):
    """Classes of clouds of points, whatever their order."""

    def __init__(self) -> None:
        super().__init__()
        self.turned, self.turned_features = Turned(3), Turned(32)
        self.first, self.second = pointwise(3, 32), pointwise(32, 64, 128, 512)
        self.head = nn.Sequential(
            nn.Linear(512, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 16)
        )

    def forward(self, cloud: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of sixteen classes, and the matrices by which features were turned."""
        x = self.first(self.turned(cloud) @ cloud)
        matrices = self.turned_features(x)
        return self.head(self.second(matrices @ x).amax(2)), matrices
