"""Speedup, efficiency and serial fraction against a base, or why not, and the cost of communication per step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from scalewise.analysis.arms import ArmRuns
from scalewise.analysis.estimate import CONFIDENCE, Estimate, run_median
from scalewise.analysis.figures import RunFigures
from scalewise.analysis.ratio import ratio, seconds_between
from scalewise.analysis.work import equal_work, told_scaling
from scalewise.errors import BadRequest
from scalewise.plan.words import changes_text, parse_changes, value_text
from scalewise.records.rows import BY_REDUCER_TIMER, REDUCER_TIMER

OVERSUBSCRIBED = "oversubscribed, not scaling"
EMULATED = "emulated, not scaling"
APART = "its ranks train apart: they are several trainings, not a faster one"


@dataclass(frozen=True)
class ScalingFigures:
    """One arm against its base; every figure is None if it was refused or has no meaning."""

    kind: Literal["strong", "weak"] | None = None
    base: str = ""  # label of the base arm; empty: no base
    speedup: Estimate | None = None  # weak: how many times the samples per second
    efficiency: Estimate | None = None
    serial_fraction: Estimate | None = None  # Karp and Flatt; strong scaling over more ranks only
    refusal: str = ""
    note: str = ""


def scaling_of(arm: ArmRuns, arms: Sequence[ArmRuns]) -> ScalingFigures:
    """The arm's figures against its base among the experiment's arms."""
    if arm.spec.scaling == "none":
        return ScalingFigures()
    base = base_of(arm, arms)
    if base is None:
        return ScalingFigures(refusal=f"its base was not run ({_wanted(arm, arms)})")
    if not arm.measured:
        return ScalingFigures(base=base.label)
    if arm.spec.oversubscribed or base.spec.oversubscribed:
        return ScalingFigures(base=base.label, refusal=OVERSUBSCRIBED)
    if arm.spec.world_size != base.spec.world_size and (arm.spec.emulated or base.spec.emulated):
        return ScalingFigures(base=base.label, refusal=EMULATED)
    if not base.measured:
        return ScalingFigures(base=base.label, refusal=f"its base failed ({base.label})")
    if base is arm:
        steps, runs = sum(item.median.steps for item in arm.measured), len(arm.measured)
        one = Estimate(1.0, 1.0, 1.0, steps, runs, "base", CONFIDENCE)
        return ScalingFigures(base=base.label, speedup=one, efficiency=one)
    if _apart(arm) or _apart(base):
        return ScalingFigures(base=base.label, refusal=APART)
    return _compared(base, arm)


def _apart(arm: ArmRuns) -> bool:
    return arm.measured[0].series.relation.kind == "apart"


def _compared(base: ArmRuns, arm: ArmRuns) -> ScalingFigures:
    work_a, work_b = base.measured[0].work, arm.measured[0].work
    kind: Literal["strong", "weak"] = "strong"
    if arm.spec.scaling == "weak":
        kind = "weak"
    elif arm.spec.scaling == "auto":
        kind = told_scaling(work_a, work_b) or "strong"
    allow = ("changes",) if "change" in arm.spec.base else ()
    verdict = equal_work(work_a, work_b, kind, declared=arm.spec.scaling != "auto", allow=allow)
    if not verdict.allowed:
        return ScalingFigures(base=base.label, refusal="; ".join(verdict.reasons))
    return scaling_figures(
        ratio(base.side(), arm.side()), arm.spec.world_size / base.spec.world_size, kind, base.label, verdict.reasons
    )


def scaling_figures(
    faster: Estimate, growth: float, kind: Literal["strong", "weak"], base: str, notes: Sequence[str] = ()
) -> ScalingFigures:
    """The figures from base time over arm time, and from the ratio of their numbers of ranks."""
    note = "; ".join(notes)
    if kind == "weak":
        return ScalingFigures(kind, base, faster.times(growth), faster, None, "", note)
    efficiency = faster.times(1 / growth) if growth != 1 else None
    fraction = serial_fraction(faster, growth) if growth > 1 else None
    return ScalingFigures(kind, base, faster, efficiency, fraction, "", note)


def serial_fraction(speedup: Estimate, ranks: float) -> Estimate:
    """Karp and Flatt's experimentally determined serial fraction: (1/S - 1/p) / (1 - 1/p); falls as S grows."""

    def fraction(value: float) -> float:
        return (1 / value - 1 / ranks) / (1 - 1 / ranks)

    return speedup.through(fraction)


def base_of(arm: ArmRuns, arms: Sequence[ArmRuns]) -> ArmRuns | None:
    """The arm with the base's values and otherwise the same; if none are named, the one with the fewest ranks."""
    wanted = _wanted_values(arm, arms)
    return next((other for other in arms if _values(other) == wanted), None)


def _values(arm: ArmRuns) -> dict[str, str]:
    axes = {name: value_text(value) for name, value in arm.spec.axes.items()}
    return {**axes, "change": arm.change, "ranks": str(arm.spec.ranks), "device": arm.spec.device}


def _wanted_values(arm: ArmRuns, arms: Sequence[ArmRuns]) -> dict[str, str]:
    own = _values(arm)
    if arm.spec.base:
        named = {name: value_text(value) for name, value in arm.spec.base.items()}
        if "change" in named:
            named["change"] = _normal(named["change"])
        return {**own, **named}
    alike = [other.spec.ranks for other in arms if {**_values(other), "ranks": own["ranks"]} == own]
    return {**own, "ranks": str(min(alike))}


def _normal(text: str) -> str:
    try:
        return changes_text(parse_changes(text))
    except BadRequest:  # a damaged spec; it then simply has no base
        return text


def _wanted(arm: ArmRuns, arms: Sequence[ArmRuns]) -> str:
    wanted = _wanted_values(arm, arms)
    return ", ".join(f"{name} {value}" for name, value in wanted.items() if name != "device")


BY_REMOVAL = "step minus step without communication"


@dataclass(frozen=True)
class Communication:
    """The time per step by one method. Methods differ: removing communication also removes its effect on computing."""

    method: str
    seconds: Estimate

    @property
    def name(self) -> str:
        """The method without what it measures."""
        return REDUCER_TIMER if self.method == BY_REDUCER_TIMER else self.method


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
