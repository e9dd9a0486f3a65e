"""The errors that predictions were seen to have, by ranks and share of communication, and what checks change in them.

They come from models on which the prediction may be tuned, rehearsed and really run minutes apart, and stand in a file
that the benchmark writes (`python -m bench unseen --learn FOLDER`). What all points of one sitting are
off by is in part its own (a machine is quicker or slower for minutes), so only a part of it becomes a shift, and what
sittings differ by is in the spread.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import hypot, log, log2, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from scalewise.analysis.estimate import QUIET_RUN_CV, normal_quantile
from scalewise.predict.answer import Checked
from scalewise.predict.link import Link

FILE = Path(__file__).with_name("seen_errors.toml")
# Before anything was checked here: the error of such predictions elsewhere, a standard deviation of logarithms, over
# 28 points of gloo among 2 ranks. It is used for other libraries as well, for which nothing was measured.
UNCHECKED = 0.06
WORTH_CHECKS = 2  # the earlier knowledge has the weight of this many checks, so that one lucky check does not decide
ALIKE = 0.5  # correlation of a script's errors at two numbers of ranks, one twice the other
MINUTES = 0.04  # what a run minutes after a check differs by beyond both runs' own chance: so 51 pairs of runs were
BEYOND = 1.15  # widens for each doubling beyond the most ranks that were ever checked


@dataclass(frozen=True)
class ModelError:
    """The error that is to be expected of a prediction."""

    shift: float  # logarithm of predicted over measured that is taken as systematic
    spread: float  # standard deviation of the rest


@dataclass(frozen=True)
class SeenError:
    """The errors of points with as many ranks and at least this share of communication."""

    ranks: int
    communication: float  # least share of the step in which messages hold up computing
    shift: float
    spread: float
    points: int


@cache
def seen_errors(path: Path = FILE) -> tuple[SeenError, ...]:
    """The errors in the file, fewest ranks first, the largest share of communication last."""
    told: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(sorted((SeenError(**one) for one in told["gloo"]), key=lambda one: (one.ranks, one.communication)))


def expected_error(link: Link, ranks: int, communication: float) -> ModelError:
    """The error of a prediction of which nothing was checked: as seen over gloo, wider beyond what was ever checked."""
    if link.origin != "measured" or link.carrier != "gloo" or ranks < 2:
        return ModelError(0.0, UNCHECKED)
    counts = sorted({one.ranks for one in seen_errors()})
    nearest = min(counts, key=lambda count: abs(log(count / ranks)))
    of_ranks = [one for one in seen_errors() if one.ranks == nearest]
    one = next((one for one in reversed(of_ranks) if one.communication <= communication), of_ranks[0])
    beyond = max(0.0, log2(ranks / counts[-1]))
    return ModelError(one.shift, one.spread * BEYOND**beyond)


def error_after(
    checks: Sequence[Checked], ranks: int, link: Link, communication: float, unusual: float = 0.0
) -> ModelError:
    """The error to expect once checks of this script over this link were made: it moves and becomes narrower.

    A check of as many ranks says most. One of half or twice as many is half as much alike, and so on. What is left is
    the part that the checks do not tell of, and chance: that of the checks themselves, or more where they contradict.
    `unusual` is the spread of what few of the steps had whose errors were learnt (`predict/unusual_parts.py`).
    """
    expected = _wider(expected_error(link, ranks, communication), unusual)
    if not checks:
        return expected
    others = [_wider(expected_error(link, check.ranks, communication), unusual) for check in checks]
    before = np.array([other.spread for other in others])
    seen = np.array([log(check.ratio) for check in checks])
    chance = np.array([chance_of(check) for check in checks])
    doublings = np.log2(np.array([check.ranks for check in checks]))
    between = np.outer(before, before) * ALIKE ** np.abs(np.subtract.outer(doublings, doublings))
    to_here = before * expected.spread * ALIKE ** np.abs(doublings - log2(ranks))
    weights = np.linalg.solve(between + np.diag(chance**2), to_here)
    left = max(0.0, expected.spread**2 - float(weights @ to_here))
    rest = seen - between @ np.linalg.solve(between + np.diag(chance**2), seen)
    usual = float(np.mean(chance**2)) + MINUTES**2
    by_chance = (WORTH_CHECKS * usual + float(np.sum(rest**2))) / (WORTH_CHECKS + len(checks))
    return ModelError(expected.shift + float(weights @ seen), sqrt(left + max(usual, by_chance)))


def _wider(expected: ModelError, unusual: float) -> ModelError:
    return ModelError(expected.shift, hypot(expected.spread, unusual))


def chance_of(check: Checked) -> float:
    """The standard deviation of the logarithm of predicted over measured that chance alone would cause."""
    step = check.measured
    half = log(step.high / step.low) / (2 * normal_quantile(step.level)) if step.low > 0 else 1.0
    return hypot(half, QUIET_RUN_CV, QUIET_RUN_CV if step.runs == 1 else 0.0)
