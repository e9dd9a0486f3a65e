"""How devices and layers of homework 3 are named and counted, and the arms that measured them."""

from dataclasses import replace
from typing import Any

from scalewise.analysis.inspection import Inspection
from scalewise.analysis.pipeline import Pipeline, pipeline_of
from scalewise.analysis.summary import ArmRow
from scalewise.explain.arms import numbers_along, usable
from scalewise.explain.evidence import Evidence
from scalewise.explain.words import listed

TWO = "two-devices"
ALL = "all-devices"
DEPTHS = (6, 12, 24)
DEVICES = (1, 2, 5)


def arms_along(
    evidence: Evidence, experiment: str, axis: str, wanted: tuple[int, ...]
) -> dict[int, tuple[ArmRow | None, Pipeline | None]]:
    """Figures and the inspected step of every value of the axis."""
    points: dict[int, dict[str, Any]] = {
        value: {axis: value} for value in numbers_along(evidence, experiment, axis, wanted)
    }
    seen = {value: evidence.inspection(experiment, **point) for value, point in points.items()}
    logical = any(one.emulated for one in seen.values() if one)
    return {
        value: (usable(evidence, experiment, **point), pipeline_of(_alike(seen[value], logical)))
        for value, point in points.items()
    }


def _alike(inspected: Inspection | None, logical: bool) -> Inspection | None:
    """Logical devices count tensors, so a real one beside them does: its allocator also holds libraries' workspaces."""
    row = inspected.memory if inspected else None
    if inspected is None or row is None or not logical or inspected.emulated or len(inspected.device_memory) != 1:
        return inspected
    if not row.peak_bytes:
        return inspected
    return replace(inspected, device_memory=(replace(inspected.device_memory[0], peak_bytes=row.peak_bytes),))


def emulated(pipeline: Pipeline | None) -> bool:
    """Whether logical devices stood for real ones."""
    return pipeline is not None and any(one.device.startswith("logical:") for one in pipeline.devices)


def devices_phrase(count: int) -> str:
    """`1 device`, `5 devices`."""
    return f"{count} device{'' if count == 1 else 's'}"


def layers_phrase(pipeline: Pipeline) -> str:
    """`3 layers on logical:0 and 3 on logical:1`."""
    return listed([f"{len(one.layers)} on {one.device}" for one in pipeline.devices])
