"""Synthetic evidence: runs of a course's suite put together into what answers and sections look at."""

from dataclasses import replace
from typing import Any

from factories import make_machine, make_run, make_suite
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.inspected_run import Inspection
from scalewise.analysis.summary import summarise
from scalewise.records.load import Run
from scalewise.records.spec import Change

REMOVED = (Change("remove_communication"),)


def arm(
    experiment: str, seconds: Any, ranks: int = 1, *, removed: bool = False, repeat: int = 0, **changes: Any
) -> Run:
    """One run of an experiment with these step times, in the order of a suite; `axes` and all else go to its spec."""
    axes = changes.get("axes", {})
    parts = [experiment, *(f"{key}{value}" for key, value in axes.items()), *(["removed"] if removed else [])]
    name = "-".join([*parts, f"ranks{ranks}", f"r{repeat}"])
    made = REMOVED if removed else changes.pop("changes", ())
    return make_run(seconds, ranks, repeat, name=name, experiment=experiment, changes=made, **changes)


def make_evidence(*runs: Run, inspections: tuple[Inspection, ...] = (), cores: int = 4, gpus: int = 0) -> Evidence:
    """The runs of one suite, analysed."""
    loaded = make_suite(*runs)
    return Evidence(loaded, summarise(loaded), inspections, make_machine(cores, gpus))


def make_inspection(run: str, **changes: Any) -> Inspection:
    """An inspected run of this name that showed nothing but what is given."""
    return replace(Inspection(run, (), (), (), (), None, (), None), **changes)
