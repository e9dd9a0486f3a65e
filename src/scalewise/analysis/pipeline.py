"""A model spread over devices in one inspected step: layers, hand-overs, who works when, and the ideal beside it.

Shares are of the time from the first layer's forward to the last layer's backward, whatever the number of devices. The
optimizer is left out: on several devices at once it cannot be seen whose turn it is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from scalewise.analysis.inspection import Inspection
from scalewise.records.inspection import BusyRow, Direction, LayerRow, TransferRow
from scalewise.units import NANO

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
    begin, end = _extent(rows)
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


def _extent(rows: Sequence[BusyRow]) -> Interval:
    return min((row.begin_ns for row in rows), default=0), max((row.end_ns for row in rows), default=0)


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
