"""The work and memory of every device of DataParallel and DDP: from NVML, busy cores, and inspected steps."""

from dataclasses import dataclass
from statistics import median

from scalewise.analysis.evidence import Evidence
from scalewise.analysis.inspection import Inspection
from scalewise.analysis.pipeline import union
from scalewise.analysis.summary import ArmRow
from scalewise.course.arms import figures_of
from scalewise.course.homework1.rows import measured_runs
from scalewise.results.run import Run

DP, DDP = "DataParallel", "DDP"


@dataclass(frozen=True)
class Device:
    """One device of one method."""

    method: str
    name: str
    part: float | None  # share of the computing of all devices of the method
    utilisation: float | None
    memory_bytes: float | None


def devices_of_dp(evidence: Evidence, row: ArmRow | None, inspected: Inspection | None) -> tuple[Device, ...]:
    if row is None or inspected is None:
        return ()
    work = {name: _busy_ns(inspected, {name}) for name in {one.device for one in inspected.timeline}}
    memory = {one.device: float(one.peak_bytes) for one in inspected.device_memory}
    names = sorted({*work, *memory})
    used = _utilisation(evidence, row)
    total = sum(work.values())
    return tuple(
        Device(
            DP,
            f"device {index}",
            work.get(name, 0) / total if total else None,
            used.get(index),
            memory.get(name),
        )
        for index, name in enumerate(names)
    )


def _busy_ns(inspected: Inspection, devices: set[str]) -> int:
    """Returns the time in which at least one of the devices works."""
    merged = union((row.begin_ns, row.end_ns) for row in inspected.timeline if row.device in devices)
    return sum(end - begin for begin, end in merged)


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
        Device(DDP, f"rank {rank}", 1 / row.ranks, used.get(rank), held or peaks[rank] or None)
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
