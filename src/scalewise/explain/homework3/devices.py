"""How devices and layers of homework 3 are named and counted, and the arms that measured them."""

from typing import Any

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
    return {
        value: (usable(evidence, experiment, **point), pipeline_of(evidence.inspection(experiment, **point)))
        for value, point in points.items()
    }


def emulated(pipeline: Pipeline | None) -> bool:
    """Whether logical devices stood for real ones."""
    return pipeline is not None and any(one.device.startswith("logical:") for one in pipeline.devices)


def devices_phrase(count: int) -> str:
    """`1 device`, `5 devices`."""
    return f"{count} device{'' if count == 1 else 's'}"


def layers_phrase(pipeline: Pipeline) -> str:
    """`3 layers on logical:0 and 3 on logical:1`."""
    return listed([f"{len(one.layers)} on {one.device}" for one in pipeline.devices])
