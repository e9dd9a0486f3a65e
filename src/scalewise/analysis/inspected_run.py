"""Reads an inspected run: layers and their devices, transfers, memory, gradients, and who works when in a step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TypeVar

from scalewise.records.inspection import (
    LOGICAL_PREFIX,
    BusyRow,
    DeviceMemoryRow,
    Direction,
    GradientRow,
    LayerRow,
    MemoryByLineRow,
    MemoryPartsRow,
    TransferRow,
)
from scalewise.records.load import Run, rows_of_kind
from scalewise.units import NANO

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
    memory = _device_memory(rows_of_kind(rows, DeviceMemoryRow))
    logical = tuple(row for row in memory if row.device.startswith(LOGICAL_PREFIX))
    parts = rows_of_kind(rows, MemoryPartsRow)
    largest = max(parts, key=lambda row: (_sum(row), row.peak_bytes), default=None)
    by_line = (row for row in rows_of_kind(rows, MemoryByLineRow) if largest is not None and row.step == largest.step)
    return Inspection(
        run=run.spec.name,
        layers=rows_of_kind(rows, LayerRow),
        transfers=_of_last_step(rows_of_kind(rows, TransferRow), [row.step for row in parts]),
        timeline=_of_shortest_step(rows_of_kind(rows, BusyRow)),
        device_memory=logical or memory,  # the device that carries logical devices holds none of the model's layers
        memory=largest,
        gradients=rows_of_kind(rows, GradientRow),
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


Interval = tuple[int, int]


@dataclass(frozen=True)
class DeviceShare:
    """The share of one device in one step."""

    device: str
    layers: tuple[str, ...]
    busy_seconds: float  # forward and backward
    busy_share: float  # of forward and backward
    peak_bytes: int | None


@dataclass(frozen=True)
class HandOver:
    """A line of the script at which data moves from device to device in forward."""

    file: str
    line: int
    text: str  # of the line; empty: not recorded
    copies: int
    bytes: int


@dataclass(frozen=True)
class Moves:
    """The copies of one direction in one step."""

    count: int
    bytes: int
    between: tuple[tuple[str, str], ...]  # source and target, in order


@dataclass(frozen=True)
class Pipeline:
    """One step of a model that lies on several devices."""

    devices: tuple[DeviceShare, ...]
    layers: tuple[LayerRow, ...]
    hand_overs: tuple[HandOver, ...]
    forward: Moves
    backward: Moves
    layers_seconds: float  # of the inspected step: from the first layer's forward to the last layer's backward
    one_busy_share: float  # of that: exactly one device at work
    together_share: float  # of that: more than one
    idle_share: float  # of that: none

    @property
    def device_count(self) -> int:
        """The number of devices that hold layers."""
        return len(self.devices)


def pipeline_of(inspection: Inspection | None) -> Pipeline | None:
    """The pipeline seen in the inspected step; None if no layer was seen."""
    if inspection is None or not inspection.layers:
        return None
    rows = layer_rows(inspection)
    begin, end = min((row.begin_ns for row in rows), default=0), max((row.end_ns for row in rows), default=0)
    depth = _depth(rows)
    length = max(end - begin, 1)
    return Pipeline(
        devices=tuple(_device(inspection, rows, device, length) for device in inspection.devices),
        layers=inspection.layers,
        hand_overs=_hand_overs(inspection),
        forward=_moves(inspection, "forward"),
        backward=_moves(inspection, "backward"),
        layers_seconds=(end - begin) * NANO,
        one_busy_share=depth.get(1, 0) / length,
        together_share=sum(time for count, time in depth.items() if count > 1) / length,
        idle_share=1 - sum(depth.values()) / length if rows else 0.0,
    )


def layer_rows(inspection: Inspection) -> tuple[BusyRow, ...]:
    """The rows of the layers' work: forward and backward, without the optimizer."""
    return tuple(row for row in inspection.timeline if row.phase != "optimizer")


def copies_seconds(inspection: Inspection) -> tuple[float, ...]:
    """The seconds of each copy between two devices: its pause, less the median pause between layers on one device.

    They are those of one step whose devices waited after every layer, forward and back. Empty if nothing was copied, or
    if the pauses do not differ.
    """
    rows = sorted(layer_rows(inspection), key=lambda row: row.begin_ns)
    pauses: dict[bool, list[int]] = {True: [], False: []}
    for before, after in pairwise(rows):
        if before.phase == after.phase:
            pauses[before.device != after.device].append(after.begin_ns - before.end_ns)
    if not pauses[True] or not pauses[False]:
        return ()
    same = median(pauses[False])
    found = tuple((pause - same) * NANO for pause in pauses[True])
    return found if median(found) > 0 else ()


def placement_rule(devices: Sequence[str]) -> str | None:
    """The rule that gives layer i its device, checked against the measured list; None if no known rule fits.

    The first device that appears is device 0, and so on.
    """
    depth = len(devices)
    names = list(dict.fromkeys(devices))
    count = len(names)
    found = [names.index(device) for device in devices]
    if found == [i * count // depth for i in range(depth)]:
        return "i * N // depth"
    if count == 2 and found == [0 if i < depth // 2 else 1 for i in range(depth)]:
        return "0 if i < depth // 2 else 1"
    block = -(-depth // count) if count else 1
    if found == [min(i // block, count - 1) for i in range(depth)]:
        return "i // ceil(depth / N)"
    return None


def contiguous(devices: Sequence[str]) -> bool:
    """Tells whether each device holds one unbroken block of layers."""
    blocks = [device for device, before in zip(devices, [None, *devices], strict=False) if device != before]
    return len(blocks) == len(set(blocks))


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The intervals in order, with overlapping ones merged."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _depth(rows: Sequence[BusyRow]) -> dict[int, int]:
    """The time in nanoseconds for which exactly this many devices were busy at once; zero devices are left out."""
    devices = {row.device for row in rows}
    stretches = [
        stretch
        for device in devices
        for stretch in union((row.begin_ns, row.end_ns) for row in rows if row.device == device)
    ]
    changes = sorted([(begin, 1) for begin, _ in stretches] + [(end, -1) for _, end in stretches])
    found: dict[int, int] = {}
    busy, last = 0, 0
    for at, change in changes:
        if busy:
            found[busy] = found.get(busy, 0) + at - last
        busy, last = busy + change, at
    return found


def _device(inspection: Inspection, rows: Sequence[BusyRow], device: str, length: int) -> DeviceShare:
    own = union((row.begin_ns, row.end_ns) for row in rows if row.device == device)
    busy = sum(end - begin for begin, end in own)
    peak = next((row.peak_bytes for row in inspection.device_memory if row.device == device), None)
    layers = tuple(layer.name for layer in inspection.layers if layer.device == device)
    return DeviceShare(device, layers, busy * NANO, busy / length, peak)


def _between_devices(inspection: Inspection) -> list[TransferRow]:
    """The copies among the devices of the layers: bringing the input from elsewhere does not count."""
    own = set(inspection.devices)
    return [row for row in inspection.transfers if row.source in own and row.target in own]


def _hand_overs(inspection: Inspection) -> tuple[HandOver, ...]:
    """The lines that really moved data, in the order of their first copy."""
    lines: dict[tuple[str, int, str], list[int]] = {}
    for row in _between_devices(inspection):
        if row.direction == "forward" and row.file:
            lines.setdefault((row.file, row.line, row.text), []).append(row.bytes)
    return tuple(HandOver(*line, len(sizes), sum(sizes)) for line, sizes in lines.items())


def _moves(inspection: Inspection, direction: Direction) -> Moves:
    rows = [row for row in _between_devices(inspection) if row.direction == direction]
    return Moves(len(rows), sum(row.bytes for row in rows), tuple((row.source, row.target) for row in rows))
