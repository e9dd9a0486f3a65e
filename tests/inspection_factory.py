"""Made-up inspected runs: a model over so many devices, a DDP run's memory by purpose, gradients."""

import itertools
from typing import Any

from scalewise.analysis.inspected_run import Inspection
from scalewise.records.inspection import (
    BusyRow,
    DeviceMemoryRow,
    GradientRow,
    LayerRow,
    MemoryPartsRow,
    TransferRow,
)

MILLISECOND = 10**6


def make_gradients(zeros: int = 0, norm: float = 1.0, steps: int = 3, **changes: Any) -> tuple[GradientRow, ...]:
    """Gradients of 1000 elements that are the same in every step."""
    values = {"elements": 1000, "zeros": zeros, "non_finite": 0, "norm": norm, "projection": norm / 2, **changes}
    return tuple(GradientRow(step=step, **values) for step in range(steps))


def make_parts(**changes: int) -> MemoryPartsRow:
    """Memory of a small fp32 model under plain SGD."""
    values = {"weight": 4000, "gradient": 4000, "optimizer": 0, "activation": 1000, "half_copy": 0, "bucket": 4000}
    values.update(changes)
    return MemoryPartsRow(step=1, **{f"{name}_bytes": size for name, size in values.items()})


def make_inspection(run: str = "run-inspect", **changes: Any) -> Inspection:
    """An inspected run that saw only what is named."""
    values: dict[str, Any] = {
        "layers": (),
        "transfers": (),
        "timeline": (),
        "device_memory": (),
        "memory": None,
        "gradients": (),
        "peak_bytes": None,
    }
    return Inspection(run, **{**values, **changes})


def make_pipeline(
    devices: int = 2,
    depth: int = 6,
    run: str = "run-inspect",
    *,
    together: bool = False,
    alternate: bool = False,
    script: str = "/s/mp.py",
    text: str = "",
) -> Inspection:
    """Layers in even blocks, one millisecond each way, device after device unless they work together."""
    places = [f"logical:{i % devices if alternate else i * devices // depth}" for i in range(depth)]
    layers = tuple(LayerRow(f"layers.{i}", "Linear", place, 400) for i, place in enumerate(places))
    order = [("forward", i) for i in range(depth)] + [("backward", i) for i in reversed(range(depth))]
    timeline = []
    for at, (phase, i) in enumerate(order):
        begin = 0 if together else at * MILLISECOND
        timeline.append(BusyRow(3, places[i], phase, f"layers.{i}", begin, begin + MILLISECOND))  # type: ignore[arg-type]
    moves = [(a, b) for a, b in itertools.pairwise(places) if a != b]
    forward = [TransferRow(3, "forward", a, b, 256, script, 7, text) for a, b in moves]
    backward = [TransferRow(3, "backward", b, a, 256, "", 0) for a, b in reversed(moves)]
    memory = tuple(DeviceMemoryRow(f"logical:{i}", 1000 * (devices - i)) for i in range(devices))
    return make_inspection(
        run, layers=layers, transfers=(*forward, *backward), timeline=tuple(timeline), device_memory=memory
    )
