"""Finds the runs that are alive together and take turns: the arms of one repeat on the same cores."""

from collections.abc import Sequence
from dataclasses import replace

from scalewise.plan.experiment import Experiment
from scalewise.records.spec import Nodes, RunSpec, Turns


def turns_problem(experiment: Experiment, nodes: Nodes | None) -> tuple[str, str] | None:
    """The reason why the arms of this experiment cannot take turns and what would help, or None if they can."""
    if nodes is not None:
        return "turns are taken on one host", "run it on one host, or leave turns out"
    if experiment.launcher != "fork":
        return f"launcher {experiment.launcher} starts one run at a time", "take turns with the fork launcher"
    if len(experiment.arms()) == len(set(experiment.ranks)):
        remedy = "add an axis, a case or a change (--change) to compare with, or leave turns out"
        return "there is only one arm of each number of ranks, and nobody to take turns with", remedy
    return None


def in_rings(runs: Sequence[RunSpec]) -> list[RunSpec]:
    """The runs, those of each ring next to each other; one whose partners were all refused is made alone.

    The clock of a run goes on while it waits for its turn, so its time limit grows with the number of runs in the ring.
    """
    groups: dict[tuple[object, ...], list[RunSpec]] = {}
    for spec in runs:
        groups.setdefault((spec.repeat, spec.ranks, spec.device, spec.shares), []).append(spec)
    made = []
    for group in groups.values():
        size, first = len(group), group[0]
        ring = f"{first.experiment}-ranks{first.ranks}-r{first.repeat}"
        for index, spec in enumerate(group):
            turns = Turns(ring, index, size) if size > 1 else None
            made.append(replace(spec, turns=turns, limit_seconds=spec.limit_seconds * size))
    return made
