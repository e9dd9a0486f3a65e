"""Reads an inspected run: layers and their devices, transfers, work over time, memory by purpose, gradients."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from scalewise.records.inspection import (
    LOGICAL_PREFIX,
    BusyRow,
    DeviceMemoryRow,
    GradientRow,
    InspectionRow,
    LayerRow,
    MemoryByLineRow,
    MemoryPartsRow,
    TransferRow,
)
from scalewise.records.load import Run

Kind = TypeVar("Kind")
Stepped = TypeVar("Stepped", TransferRow, BusyRow)


@dataclass(frozen=True)
class Inspection:
    """The inspection of rank 0 of an inspected run; parts that the script did not show are empty or None."""

    run: str  # its name
    layers: tuple[LayerRow, ...]
    transfers: tuple[TransferRow, ...]  # of one typical step
    timeline: tuple[BusyRow, ...]  # of one typical step, in which only the layers were observed
    device_memory: tuple[DeviceMemoryRow, ...]  # one per device
    memory: MemoryPartsRow | None  # of the step with the largest sum
    gradients: tuple[GradientRow, ...]  # one per step
    peak_bytes: int | None  # of the device that held most or, on CPU ranks, of the tensors
    notes: tuple[str, ...] = ()  # what could not be seen, and why
    memory_by_line: tuple[MemoryByLineRow, ...] = ()  # of the same step as `memory`, the largest first

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices in the order of the layers."""
        return tuple(dict.fromkeys(layer.device for layer in self.layers))

    @property
    def emulated(self) -> bool:
        """Tells whether logical devices replaced real ones."""
        return any(device.startswith(LOGICAL_PREFIX) for device in self.devices)


@dataclass(frozen=True)
class FailedInspection:
    """An inspected run that shows nothing, and the reason."""

    run: str  # its name
    experiment: str
    reason: str


def inspection_of(run: Run) -> Inspection | None:
    """The inspection of a run; None if it was not inspected, did not finish, or showed nothing."""
    if not run.spec.inspected or not run.measured:
        return None
    rank = next((rank for rank in run.ranks if rank.inspection), None)
    if rank is None:
        return None
    rows = rank.inspection
    memory = _device_memory(_all(rows, DeviceMemoryRow))
    logical = tuple(row for row in memory if row.device.startswith(LOGICAL_PREFIX))
    parts = _all(rows, MemoryPartsRow)
    largest = max(parts, key=lambda row: (_sum(row), row.peak_bytes), default=None)
    by_line = (row for row in _all(rows, MemoryByLineRow) if largest is not None and row.step == largest.step)
    return Inspection(
        run=run.spec.name,
        layers=_all(rows, LayerRow),
        transfers=_of_last_step(_all(rows, TransferRow), [row.step for row in parts]),
        timeline=_of_shortest_step(_all(rows, BusyRow)),
        device_memory=logical or memory,  # the device that carries logical devices holds none of the model's layers
        memory=largest,
        gradients=_all(rows, GradientRow),
        peak_bytes=max((row.peak_bytes for row in memory), default=None),
        notes=tuple(f"{row.where}: {row.error}" for row in rank.trouble),
        memory_by_line=tuple(by_line),
    )


def inspections_of(runs: Iterable[Run]) -> tuple[Inspection, ...]:
    """The inspections of all runs that were inspected and show something."""
    found = (inspection_of(run) for run in runs)
    return tuple(one for one in found if one is not None)


def failed_inspections_of(runs: Iterable[Run]) -> tuple[FailedInspection, ...]:
    """The inspected runs that show nothing."""
    return tuple(
        FailedInspection(run.spec.name, run.spec.experiment, _why(run))
        for run in runs
        if run.spec.inspected and inspection_of(run) is None
    )


def failure_of(run: Run) -> str:
    """The reason why an inspected run shows nothing at all; empty if it ran."""
    return "" if run.measured else _why(run)


def _why(run: Run) -> str:
    if run.outcome is None:
        return "not finished"
    if not run.measured:
        return run.outcome.sentence
    troubles = (f"{row.where}: {row.error}" for rank in run.ranks for row in rank.trouble)
    return next(troubles, "the watcher saw nothing of what it inspects")


def _all(rows: Iterable[InspectionRow], kind: type[Kind]) -> tuple[Kind, ...]:
    return tuple(row for row in rows if isinstance(row, kind))


def _of_last_step(rows: Sequence[Stepped], looked_at: Sequence[int] = ()) -> tuple[Stepped, ...]:
    """Rows of the last step that was inspected, or that has any: the first ones are still warming up."""
    last = max(looked_at or [row.step for row in rows], default=0)
    return tuple(row for row in rows if row.step == last)


def _of_shortest_step(rows: tuple[BusyRow, ...]) -> tuple[BusyRow, ...]:
    """Rows of the shortest step, so that a delay of a layer does not count; the first step may hold lazy set-up."""
    steps = sorted({row.step for row in rows})
    length = {step: max(row.end_ns for row in rows if row.step == step) for step in steps[1:] or steps}
    shortest = min(length, key=lambda step: length[step], default=None)
    return tuple(row for row in rows if row.step == shortest)


def _device_memory(rows: Iterable[DeviceMemoryRow]) -> tuple[DeviceMemoryRow, ...]:
    """The largest peak of each device, as peaks are recorded more than once and only grow."""
    peaks: dict[str, int] = {}
    for row in rows:
        peaks[row.device] = max(row.peak_bytes, peaks.get(row.device, 0))
    return tuple(DeviceMemoryRow(device, peak) for device, peak in peaks.items())


def _sum(row: MemoryPartsRow) -> int:
    return (
        row.weight_bytes
        + row.gradient_bytes
        + row.optimizer_bytes
        + row.activation_bytes
        + row.half_copy_bytes
        + row.bucket_bytes
    )
