"""Chooses the numbers of ranks of an experiment to rehearse: those that cannot be measured, and one that can."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from scalewise.plan.experiment import Arm, Experiment
from scalewise.records.machine import MachineFacts
from scalewise.records.spec import Rehearsed, RunSpec

GPUS_PER_NODE = 8  # as the script is told; CPU ranks are all on one node


def rehearsals(
    experiment: Experiment, machine: MachineFacts, spec_of: Callable[[Arm], RunSpec]
) -> Iterator[tuple[Arm, RunSpec]]:
    """Yields a rehearsal without changes for every number of ranks asked for that cannot be measured here.

    If there is any, the largest number that can be measured is rehearsed as well: as it is measured too, it shows the
    error of a prediction. A machine with too few GPUs for any of them rehearses as many ranks as it has GPUs.
    """
    absent = [count for count in experiment.rehearse if not _here(spec_of(_any_arm(experiment, count)), machine)]
    if not absent:
        return
    known = [count for count in experiment.rehearse if count not in absent and count in experiment.ranks]
    gpus = len(machine.gpus)
    if not known and (gpus in experiment.ranks or experiment.few_gpus == "reduce"):
        known = [gpus] if spec_of(_any_arm(experiment, min(absent))).device == "cuda" else []
    for arm in replace(experiment, ranks=(*sorted(known)[-1:], *sorted(absent)), changes=((),)).arms():
        yield arm, _as_rehearsal(spec_of(arm), machine)


def rehearsal_names(names: Sequence[str], arms: Sequence[Arm]) -> list[str]:
    """The names of rehearsed runs: `strong-scaling-ranks8` becomes `strong-scaling-rehearse8`."""
    ends = [f"ranks{arm.ranks}" for arm in arms]
    return [
        f"{name.removesuffix(end)}rehearse{arm.ranks}" if name.endswith(end) else f"{name}-rehearse{arm.ranks}"
        for name, end, arm in zip(names, ends, arms, strict=True)
    ]


def _any_arm(experiment: Experiment, ranks: int) -> Arm:
    return replace(experiment, ranks=(ranks,)).arms()[0]


def _here(spec: RunSpec, machine: MachineFacts) -> bool:
    return spec.ranks <= len(machine.gpus) if spec.device == "cuda" else not spec.oversubscribed


def _as_rehearsal(spec: RunSpec, machine: MachineFacts) -> RunSpec:
    """The run as a rehearsal, with a process for each rank, from rank 0 on, that can have cores or a GPU of its own."""
    places = len(machine.gpus) if spec.device == "cuda" else len(dict.fromkeys(spec.shares))
    company = max(1, min(spec.ranks, places))
    per_node = min(spec.ranks, GPUS_PER_NODE) if spec.device == "cuda" else spec.ranks
    return replace(
        spec,
        launcher="fork",
        ranks=company,
        shares=spec.shares[:company],
        oversubscribed=False,
        emulated=False,
        kind=Rehearsed(spec.ranks, 0, per_node),
    )
