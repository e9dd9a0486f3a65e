"""Computes how far computing differs from run to run here, from the rehearsals themselves."""

from collections import defaultdict
from collections.abc import Sequence
from math import log
from statistics import median

from scalewise.analysis.estimate import QUIET_RUN_CV
from scalewise.predict.rehearsed import RehearsedRank

LEAST_STEPS = 8  # with fewer steps, a half is too short to have a median of its own


def compute_spread(rehearsals: Sequence[RehearsedRank]) -> float:
    """The standard deviation of the logarithm of a rehearsal's computing; at least that of a quiet machine.

    Rehearsals that do the same work for different numbers of ranks should take the same time, and the first half of one
    should take as long as its second.
    """
    return max(QUIET_RUN_CV, _between(rehearsals), _within(rehearsals))


def _between(rehearsals: Sequence[RehearsedRank]) -> float:
    same: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for one in rehearsals:
        tape = one.typical
        sent = tuple((message.kind, message.size_bytes) for message in tape.messages)
        if tape.samples is not None:
            same[(one.company, tape.samples, tape.micro_batches, sent)].append(log(_seconds(one)))
    squares = [sum((value - sum(group) / len(group)) ** 2 for value in group) for group in same.values()]
    freedom = sum(len(group) - 1 for group in same.values())
    return (sum(squares) / freedom) ** 0.5 if freedom else 0.0


def _within(rehearsals: Sequence[RehearsedRank]) -> float:
    """The variation within rehearsals: half the difference of two halves varies as the median of the whole does."""
    halves = []
    for one in rehearsals:
        seconds = [tape.compute_seconds for tape in one.tapes]
        middle = len(seconds) // 2
        if len(seconds) >= LEAST_STEPS and min(seconds) > 0:
            halves.append(log(median(seconds[:middle]) / median(seconds[middle:])) / 2)
    return (sum(half**2 for half in halves) / len(halves)) ** 0.5 if halves else 0.0


def _seconds(rehearsal: RehearsedRank) -> float:
    return max(1e-12, median(tape.compute_seconds for tape in rehearsal.tapes))
