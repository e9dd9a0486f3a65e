"""Groups optimizer steps into training iterations, for scripts that step several optimizers in turn."""

from collections import Counter

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def iteration_starts(optimizers: Indices) -> tuple[Indices, int]:
    """Returns the index of the first step of each iteration, and the number of steps in whole iterations.

    An iteration ends with a step of the optimizer that steps rarest; if several are equally rare, with the one that
    comes last when every optimizer has stepped once. Optimizers used one after the other, rather than in turns, do not
    make a pattern: there every step is an iteration.
    """
    count = len(optimizers)
    alone = np.arange(count), count
    kinds, first, numbers = np.unique(optimizers, return_index=True, return_counts=True)
    if len(kinds) < 2:
        return alone
    rarest = numbers == numbers.min()
    last = kinds[rarest][np.argmax(first[rarest])]
    ends = np.flatnonzero(optimizers == last) + 1
    starts = np.concatenate(([0], ends[:-1]))
    whole = int(ends[-1])
    if count - whole > np.max(ends - starts) or not _in_turns(optimizers, starts, ends):
        return alone
    return starts, whole


def _in_turns(optimizers: Indices, starts: Indices, ends: Indices) -> bool:
    """Tells whether at least half of the groups are the same sequence and hold more than one optimizer."""
    patterns = [optimizers[start:end].tobytes() for start, end in zip(starts, ends, strict=True)]
    ((commonest, times),) = Counter(patterns).most_common(1)
    mixed = len(set(np.frombuffer(commonest, dtype=optimizers.dtype).tolist())) > 1
    return mixed and 2 * times >= len(patterns)
