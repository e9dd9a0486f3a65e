"""Finds the end of warm-up in the data: the first steps are slower (or faster) than the settled run."""

from dataclasses import dataclass

import numpy as np

from scalewise.analysis.estimate import Floats

WINDOW = 5  # steps whose median is compared: enough to ignore two odd steps
LEAST_STEPS = 9  # with fewer there is no later part to compare with
SLACK = 0.02  # of the median: a smaller warm-up effect is not worth a step
LATE_TAIL = 0.995  # share of the later windows that count as settled


@dataclass(frozen=True)
class WarmUp:
    """The number of leading steps left out, and whether the run had settled by then."""

    steps: int
    over: bool


def find_warmup(seconds: Floats) -> WarmUp:
    """The warm-up of a run: at least its first step, at most a third of its steps.

    Warm-up ends at the first step from which the median of five steps lies where such medians lie in the last two
    thirds of the run, and which is not itself slower than nearly all of them.
    """
    count = len(seconds)
    limit = count // 3
    if count < LEAST_STEPS:
        return WarmUp(min(1, max(count - 1, 0)), count > 1)
    windows = np.median(np.lib.stride_tricks.sliding_window_view(seconds, WINDOW), axis=1)
    later = windows[limit:]
    slack = SLACK * float(np.median(seconds[limit:]))
    low, high = np.quantile(later, [1 - LATE_TAIL, LATE_TAIL])
    slowest = float(np.quantile(seconds[limit:], LATE_TAIL)) + slack
    settled = (windows[:limit] >= low - slack) & (windows[:limit] <= high + slack) & (seconds[:limit] <= slowest)
    found = np.flatnonzero(settled[1:])
    return WarmUp(int(found[0]) + 1, True) if len(found) else WarmUp(limit, False)
