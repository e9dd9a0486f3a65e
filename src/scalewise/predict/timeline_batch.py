"""Computes `predict.timeline` for thousands of variants of one step at once: the same rules, with arrays for numbers.

Messages are carried one after another, so it is enough to know how much message time was issued and how much of it is
done; while computing, both proceed at the rates of `Sharing`.
"""

from collections.abc import Mapping

import numpy as np

from scalewise.analysis.estimate import Floats
from scalewise.predict.tape import Compute, Issue, Phase, Tape
from scalewise.predict.timeline import APART, MOST_SPARED, Sharing


def steps_seconds(
    tape: Tape, message_seconds: Floats, factors: Mapping[Phase, Floats] | None = None, sharing: Sharing = APART
) -> Floats:
    """The step time of every variant.

    A variant is a column of `message_seconds` (one row for each message in order) and of the phases' factors.
    """
    variants = message_seconds.shape[1]
    factors, whole = factors or {}, np.ones(variants)
    message_rate = 1 / (1 + sharing.work)
    compute_rate = (1 - sharing.work * message_rate) / (1 + sharing.drag)
    now, issued, through = (np.zeros(variants) for _ in range(3))
    ends: dict[int, Floats] = {}
    at = 0
    for entry in tape.entries:
        if isinstance(entry, Compute):
            work = entry.seconds * factors.get(entry.phase, whole)
            beside = np.minimum(work / compute_rate, (issued - through) / message_rate)
            now += beside + (work - beside * compute_rate)
            through += beside * message_rate
        elif isinstance(entry, Issue):
            spared = np.minimum(sharing.spared_seconds, MOST_SPARED * message_seconds[at])
            issued = issued + message_seconds[at] - np.minimum(spared, issued - through)
            ends[entry.number] = issued
            at += 1
        else:
            still = np.maximum(0.0, ends.get(entry.number, issued) - through)
            now += still
            through += still
    return now / tape.steps
