"""The points at which predictions are tried: models, batches, accumulation, precision, and links between the ranks."""

from dataclasses import dataclass
from pathlib import Path

import scalewise

LINEAR = Path(scalewise.__file__).parent / "subjects" / "linear.py"
TRANSFORMER = Path(__file__).parent / "scripts" / "transformer.py"
CONVOLUTION = Path(__file__).parent / "scripts" / "convolution.py"
QUICK = 6  # every so manieth point is a look


@dataclass(frozen=True)
class Point:
    """One script with its arguments, and the link that is emulated for it."""

    name: str
    script: Path
    args: tuple[str, ...]
    latency_seconds: float
    bytes_per_second: float
    steps: int

    @property
    def words(self) -> tuple[str, ...]:
        """The script's command line."""
        return (*self.args, "--steps", str(self.steps))

    @property
    def link_text(self) -> str:
        """`2 ms, 0.25 GB/s`."""
        return f"{self.latency_seconds * 1e3:g} ms, {self.bytes_per_second / 1e9:g} GB/s"


def _linear(dim: int, depth: int, batch: int, link: tuple[float, float], steps: int, *more: str) -> Point:
    name = " ".join(["linear", f"{dim}x{depth}", f"b{batch}", *_short(more)])
    args = ("--dim", str(dim), "--depth", str(depth), "--batch", str(batch), *more)
    return Point(name, LINEAR, args, link[0] * 1e-3, link[1] * 1e9, steps)


def _script(script: Path, batch: int, link: tuple[float, float], steps: int, *more: str) -> Point:
    name = " ".join([script.stem, f"b{batch}", *_short(more)])
    return Point(name, script, ("--batch", str(batch), *more), link[0] * 1e-3, link[1] * 1e9, steps)


def _short(words: tuple[str, ...]) -> list[str]:
    """`--accumulate 4 --sync every` as `accumulate=4 sync=every`."""
    return [f"{key[2:]}={value}" for key, value in zip(words[::2], words[1::2], strict=True)]


ACCUMULATE, EVERY, BF16 = ("--accumulate", "4"), ("--sync", "every"), ("--amp", "bfloat16")

# Links in ms and GB/s, all slower than gloo over loopback (about 0.3 ms and 1 GB/s on two cores): a quicker one could
# not be emulated there.
POINTS = (
    _linear(1024, 2, 64, (2, 0.25), 60),
    _linear(1024, 2, 256, (2, 0.25), 60),
    _linear(1024, 2, 1024, (1, 0.5), 40),
    _linear(1024, 2, 256, (5, 0.1), 40, *ACCUMULATE),
    _linear(1024, 2, 256, (2, 0.25), 40, *ACCUMULATE, *EVERY),
    _linear(1024, 2, 256, (2, 0.25), 40, *BF16),
    _linear(1024, 8, 128, (1, 0.5), 30),
    _linear(1024, 8, 512, (2, 0.25), 20),
    _linear(1024, 8, 512, (2, 0.25), 20, *ACCUMULATE),
    _linear(1024, 8, 512, (2, 0.5), 20, *ACCUMULATE, *EVERY),
    _linear(1024, 8, 512, (2, 0.5), 20, *BF16),
    _linear(2048, 4, 128, (1, 0.5), 20),
    _linear(2048, 4, 512, (5, 0.25), 16),
    _linear(2048, 4, 512, (1, 0.5), 16, *ACCUMULATE),
    _linear(2048, 8, 128, (2, 0.5), 14),
    _linear(4096, 2, 128, (2, 0.5), 14),
    _linear(4096, 8, 64, (2, 0.5), 9),
    _script(TRANSFORMER, 8, (2, 0.25), 30),
    _script(TRANSFORMER, 16, (1, 0.5), 20, "--bucket-mb", "2"),
    _script(TRANSFORMER, 16, (5, 0.1), 20, "--bucket-mb", "2"),
    _script(TRANSFORMER, 32, (2, 0.25), 14, *ACCUMULATE),
    _script(TRANSFORMER, 32, (2, 0.5), 14, *ACCUMULATE, *EVERY),
    _script(TRANSFORMER, 16, (2, 0.25), 20, *BF16),
    _script(CONVOLUTION, 16, (2, 0.05), 30),
    _script(CONVOLUTION, 32, (5, 0.02), 20, "--bucket-mb", "0.3"),
    _script(CONVOLUTION, 32, (2, 0.05), 20, *ACCUMULATE),
    _script(CONVOLUTION, 32, (2, 0.05), 20, *ACCUMULATE, *EVERY),
    _script(CONVOLUTION, 32, (2, 0.05), 20, *BF16),
)
