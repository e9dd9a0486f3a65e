"""Estimates the cost of communication per step: from the watcher's records, and by a run without communication."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scalewise.analysis.arms import ArmRuns
from scalewise.analysis.estimate import Estimate, run_median
from scalewise.analysis.figures import RunFigures
from scalewise.analysis.ratio import seconds_between

BY_REMOVAL = "step minus step without communication"


@dataclass(frozen=True)
class Communication:
    """The time per step by one method. Methods differ: removing communication also removes its effect on computing."""

    method: str
    seconds: Estimate


def preferred_communication(found: Sequence[Communication], change: str) -> Communication | None:
    """The estimate to show: removal gives the whole cost, records of the watcher give a lower bound.

    An arm whose communication was removed has none to show.
    """
    if "remove_communication" in change:
        return None
    by_removal = [one for one in found if one.method == BY_REMOVAL]
    return next(iter((*by_removal, *found)), None)


def communication_of(arm: ArmRuns, arms: Sequence[ArmRuns], figures: Sequence[RunFigures]) -> tuple[Communication, ...]:
    """The cost of communication of this arm, by every method that the experiment offers."""
    seen: dict[str, list[float]] = {}
    for one in figures:
        for exposed in one.exposed:
            seen.setdefault(exposed.method, []).extend(exposed.sampled_seconds)
    inside = tuple(_sampled(method, values) for method, values in seen.items())
    removed = _without_communication(arm, arms)
    if removed is None:
        return inside
    return (*inside, Communication(BY_REMOVAL, seconds_between(removed.side(), arm.side())))


def _sampled(method: str, values: list[float]) -> Communication:
    """The median of these samples with its interval; how far the method itself may be off, its name says."""
    return Communication(method, replace(run_median(np.array(values)).estimate, method=method))


def _removed(arm: ArmRuns) -> bool:
    """Tells whether the arm was measured and its communication was removed in every run."""
    return bool(arm.measured) and all(one.run.applied("remove_communication") for one in arm.measured)


def _without_communication(arm: ArmRuns, arms: Sequence[ArmRuns]) -> ArmRuns | None:
    """The measured arm that differs from this one only in that its communication is removed; None if there is none."""
    own = arm.spec
    names = {one.name for one in own.changes}
    if not arm.measured or "remove_communication" in names or own.world_size == 1:
        return None
    for other in arms:
        spec = other.spec
        same = spec.axes == own.axes and spec.world_size == own.world_size and spec.device == own.device
        rest = {one for one in spec.changes if one.name != "remove_communication"}
        taken = len(rest) < len(spec.changes)
        if same and taken and rest == set(own.changes) and _removed(other):
            return other
    return None
