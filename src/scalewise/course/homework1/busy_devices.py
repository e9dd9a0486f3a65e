"""The work and memory of every device of DataParallel and DDP: from NVML, busy cores, and inspected steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scalewise.analysis.estimate import Estimate
from scalewise.analysis.evidence import Evidence
from scalewise.analysis.inspection import Inspection
from scalewise.analysis.pipeline import union
from scalewise.analysis.propagate import exact
from scalewise.analysis.summary import ArmRow
from scalewise.course.homework1.comparable_rows import measured_runs
from scalewise.course.selected_arms import COURSE_LEVEL, figures_of
from scalewise.records.inspection import BusyRow
from scalewise.records.load import Run
from scalewise.units import NANO

DP, DDP = "DataParallel", "DDP"


@dataclass(frozen=True)
class Device:
    """One device of one method."""

    method: str
    name: str
    part: Estimate | None  # of the layers' time on all devices of the method; DDP's is that of its samples
    own_seconds: float | None  # time in which it alone works: the optimizer of DataParallel
    utilisation: float | None
    memory_bytes: float | None


def devices_of_dp(evidence: Evidence, row: ArmRow | None, inspected: Inspection | None) -> tuple[Device, ...]:
    if row is None or inspected is None:
        return ()
    steps = _timed_steps(evidence, inspected)
    memory = {one.device: float(one.peak_bytes) for one in inspected.device_memory}
    names = sorted({*(one.device for one in inspected.timeline), *memory})
    used = _utilisation(evidence, row)
    return tuple(
        Device(
            DP,
            f"device {index}",
            _part(steps, name),
            _own_seconds(steps, name),
            used.get(index),
            memory.get(name),
        )
        for index, name in enumerate(names)
    )


def _timed_steps(evidence: Evidence, inspected: Inspection) -> list[tuple[BusyRow, ...]]:
    """Returns every inspected step, or the one that the figures show if there is no other: one step says little."""
    run = evidence.run(inspected.run)
    rows = [row for rank in (run.ranks if run else ()) for row in rank.inspection if isinstance(row, BusyRow)]
    rows = rows or list(inspected.timeline)
    return [tuple(row for row in rows if row.step == step) for step in sorted({row.step for row in rows})]


def _part(steps: Sequence[Sequence[BusyRow]], device: str) -> Estimate | None:
    """The device's share of all devices' time for layers: over all steps, with the least and the most of one step."""
    each = [(_layers_ns(rows, {device}), _layers_ns(rows, None)) for rows in steps]
    shares = [own / every for own, every in each if every]
    if not shares:
        return None
    whole = sum(own for own, _ in each) / sum(every for _, every in each)
    method = "least and most of one step"
    return Estimate(whole, min(shares), max(shares), len(shares), 1, method, COURSE_LEVEL)


def _layers_ns(rows: Sequence[BusyRow], devices: set[str] | None) -> int:
    """The time of the layers of these devices, or of each device, added up; what runs at the same time counts once."""
    if devices is None:
        return sum(_layers_ns(rows, {name}) for name in {row.device for row in rows})
    found = [row for row in rows if row.device in devices and row.phase != "optimizer"]
    return sum(end - begin for begin, end in union((row.begin_ns, row.end_ns) for row in found))


def _own_seconds(steps: Sequence[Sequence[BusyRow]], device: str) -> float | None:
    """The median time of the optimizer on this device, which works where the weights are; None if none was seen."""
    if not any(row.phase == "optimizer" for rows in steps for row in rows):
        return None
    whole = [sum(row.end_ns - row.begin_ns for row in rows if _updates(row, device)) for rows in steps]
    return median(whole) * NANO


def _updates(row: BusyRow, device: str) -> bool:
    return row.device == device and row.phase == "optimizer"


def devices_of_ddp(evidence: Evidence, row: ArmRow | None) -> tuple[Device, ...]:
    """Returns DDP's devices, with memory as for DataParallel: tensors on logical devices, else the allocator's."""
    if row is None:
        return ()
    used = _utilisation(evidence, row)
    inspected = evidence.inspection("ddp")
    tensors = float(inspected.memory.peak_bytes if inspected and inspected.memory else 0)
    held = tensors or (float(inspected.peak_bytes or 0) if inspected else 0.0)
    peaks = [_peak(evidence, row, rank) for rank in range(row.ranks)]
    return tuple(
        Device(DDP, f"rank {rank}", exact(1 / row.ranks), None, used.get(rank), held or peaks[rank] or None)
        for rank in range(row.ranks)
    )


def _peak(evidence: Evidence, row: ArmRow, rank: int) -> float:
    found = [
        one.ranks[rank].cuda_peak_allocated_bytes or 0 for one in figures_of(evidence, row) if rank < len(one.ranks)
    ]
    return median(found) if found else 0.0


def _utilisation(evidence: Evidence, row: ArmRow) -> dict[int, float]:
    """Returns utilisation by device: of a GPU as nvidia-smi reports it, of a rank's cores, or of all cores (0)."""
    found: dict[int, list[float]] = {}
    for run in measured_runs(evidence, row):
        for _, values in training_samples(run):
            for index, value in values.items():
                found.setdefault(index, []).append(value)
    return {index: median(values) for index, values in found.items()}


def training_samples(run: Run) -> list[tuple[float, dict[int, float]]]:
    """Returns (seconds, utilisation by device) while steps were made; a device is a GPU, or a rank's cores."""
    made = [min(row.rank_steps, default=-1) for row in run.samples]
    rows = [row for row, before in zip(run.samples[1:], made, strict=False) if before != 0]
    if run.spec.device == "cuda":
        return [
            (row.at_seconds, {gpu.index: _share(gpu.utilisation) for gpu in row.gpus if gpu.utilisation is not None})
            for row in rows
        ]
    cores = [max(1, len(share)) for share in run.spec.shares]
    if run.spec.mode == "python":
        most = len(run.machine.cores) if run.machine else sum(cores)
        cores = [max(cores[0] if cores else 1, min(2, most))]
    return [
        (row.at_seconds, {rank: busy / cores[rank] for rank, busy in enumerate(row.rank_busy) if rank < len(cores)})
        for row in rows
    ]


def _share(utilisation: float) -> float:
    return utilisation / 100 if utilisation > 1 else utilisation
