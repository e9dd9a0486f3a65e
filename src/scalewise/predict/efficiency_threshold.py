"""Finds where efficiency falls below a share, by the model, among the numbers of ranks that fill nodes."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from scalewise.analysis.estimate import Estimate
from scalewise.predict.answer import RehearsalAnswer
from scalewise.predict.predicted_scaling import ScalingCurve, ScalingTable, figures_against_base

SHARES = (0.8, 0.5)
FARTHEST = 16_384
GROWTH = 1.15  # ratio of a tried number of ranks to the one before
Side = Literal["value", "low", "high"]


@dataclass(frozen=True)
class EfficiencyThreshold:
    """The first number of ranks below the share; `earliest` by the interval's lower end, `latest` by its upper end."""

    share: float
    ranks: int | None  # None: not up to `looked_to`
    earliest: int | None
    latest: int | None
    looked_to: int
    beyond: bool  # more ranks than were rehearsed


def efficiency_thresholds(answer: RehearsalAnswer, table: ScalingTable) -> tuple[EfficiencyThreshold, ...]:
    """The thresholds for the usual shares, as far as the link is known; none if it joins no ranks."""
    curve, last = ScalingCurve(answer, table.kind), answer.at[-1].ranks
    farthest = max(min(FARTHEST, curve.most_ranks or FARTHEST), last)
    farthest = min(farthest, answer.link.most_ranks or farthest)
    if farthest < 2:
        return ()
    rehearsed = [ranks for ranks in curve.numbers if 2 <= ranks <= farthest]
    candidates = sorted({*_candidates(farthest, answer.link.ranks_per_node), *rehearsed})
    marks = sorted({*_marks(len(candidates)), *(bisect_left(candidates, ranks) for ranks in rehearsed)})
    found: dict[int, Estimate] = {}

    def efficiency(ranks: int) -> Estimate:
        if ranks not in found:
            told = figures_against_base(curve.step(ranks), curve.samples(ranks), ranks, table.base, table.kind)
            found[ranks] = told.efficiency
        return found[ranks]

    return tuple(_threshold(share, candidates, marks, efficiency, last) for share in SHARES)


def _threshold(
    share: float, candidates: Sequence[int], marks: Sequence[int], efficiency: Callable[[int], Estimate], rehearsed: int
) -> EfficiencyThreshold:
    def first(side: Side) -> int | None:
        return _first_below(candidates, marks, lambda ranks: float(getattr(efficiency(ranks), side)), share)

    ranks = first("value")
    beyond = ranks is not None and ranks > rehearsed
    return EfficiencyThreshold(share, ranks, first("low"), first("high"), candidates[-1], beyond)


def _first_below(
    candidates: Sequence[int], marks: Sequence[int], value: Callable[[int], float], share: float
) -> int | None:
    """The first candidate below the share: found among the marks, then by bisection down to the mark before."""
    below = next((at for at in marks if value(candidates[at]) < share), None)
    if below is None:
        return None
    above = max((at for at in marks if at < below), default=-1)
    while below - above > 1:
        middle = (above + below) // 2
        above, below = (above, middle) if value(candidates[middle]) < share else (middle, below)
    return candidates[below]


def _marks(count: int) -> list[int]:
    """Indices at growing distances; those of rehearsed numbers are added by the caller, as efficiency may also rise."""
    marks, at = [], 0
    while at < count - 1:
        marks.append(at)
        at = max(at + 1, int(at * GROWTH))
    return [*marks, count - 1]


def _candidates(most: int, per_node: int) -> list[int]:
    """Every number of ranks inside a node, then whole nodes; without one rank, which is the base."""
    inside = min(per_node, most) if per_node else most
    return [*range(2, inside + 1), *(range(2 * per_node, most + 1, per_node) if per_node else ())]
