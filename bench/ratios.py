"""Ratios and shares with their 95 % intervals."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

RESAMPLES = 4000


@dataclass(frozen=True)
class Ratio:
    """How many times an arm's figure is the base's."""

    value: float
    low: float
    high: float
    rounds: int

    def text(self) -> str:
        """For tables: 1.012 [1.009, 1.016]."""
        digits = 4 if self.value < 10 else 1
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"

    def plain(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


def median_with_interval(ratios: Sequence[float]) -> Ratio:
    """The median of one ratio per round, with a bootstrap interval over the rounds."""
    values = np.asarray(ratios, dtype=float)
    picks = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(np.median(values[picks], axis=1), [0.025, 0.975])
    return Ratio(float(np.median(values)), float(low), float(high), len(values))


def share_interval(hits: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; honest only for independent trials."""
    if not trials:
        return 0.0, 1.0
    z, share = 1.96, hits / trials
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    reach = z / (1 + z * z / trials) * (share * (1 - share) / trials + z * z / (4 * trials**2)) ** 0.5
    return max(0.0, middle - reach), min(1.0, middle + reach)
