"""Work and memory of every device of DataParallel and of DDP, from NVML, from inspected runs, or from busy cores."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from scalewise.analysis.inspection import Inspection
from scalewise.analysis.pipeline import union
from scalewise.analysis.summary import ArmRow
from scalewise.explain.evidence import Evidence
from scalewise.explain.homework1.pieces import runs_of
from scalewise.results.run import Run

DP = "DataParallel"
DDP = "DDP"
BY_NVML = "NVML"
BY_TENSORS = "tensors of an inspected step"
BY_ALLOCATOR = "torch's allocator"
SHARED_GPU = "one GPU for all ranks"
BY_TIMELINE = "inspected step, of the time in which any device works"
BY_CORES = "busy cores"


@dataclass(frozen=True)
class DeviceUse:
    """One device of one method; None where it was not recorded."""

    method: str
    device: str
    utilisation: float | None  # 0 to 1
    utilisation_by: str
    memory_bytes: float | None
    memory_by: str


@dataclass(frozen=True)
class Comparison:
    """Both methods, device by device."""

    dp: ArmRow | None
    ddp: ArmRow | None
    inspected: Inspection | None  # of DataParallel
    devices: tuple[DeviceUse, ...]
    alone_share: float | None  # of the time in which any device of DP works: only the first does
    emulated: bool

    def uses(self, method: str) -> tuple[DeviceUse, ...]:
        """The devices of one method, the first first."""
        return tuple(one for one in self.devices if one.method == method)


def comparison(evidence: Evidence) -> Comparison:
    """From the experiments data-parallel and ddp."""
    dp = next((row for row in evidence.rows("data-parallel") if row.step_seconds is not None), None)
    ddp = next((row for row in evidence.rows("ddp") if row.step_seconds is not None), None)
    inspected = evidence.inspection("data-parallel")
    emulated = bool(inspected and inspected.emulated) or bool(dp and dp.mark == "emulated")
    devices = (*_data_parallel(evidence, dp, inspected, emulated), *_ddp(evidence, ddp, emulated))
    return Comparison(dp, ddp, inspected, devices, alone_share(inspected) if inspected else None, emulated)


def _data_parallel(
    evidence: Evidence, row: ArmRow | None, inspected: Inspection | None, emulated: bool
) -> tuple[DeviceUse, ...]:
    if inspected is None:
        return ()
    shares = busy_shares(inspected)
    memory = {one.device: float(one.peak_bytes) for one in inspected.device_memory}
    names = sorted({*shares, *memory})
    nvml = {} if emulated or row is None else _nvml_utilisation(runs_of(row, evidence))
    found = []
    for index, name in enumerate(names):
        used = (nvml[index], BY_NVML) if index in nvml else (shares.get(name), BY_TIMELINE)
        found.append(DeviceUse(DP, name, *used, memory.get(name), BY_TENSORS if emulated else BY_ALLOCATOR))
    return tuple(found)


def _ddp(evidence: Evidence, row: ArmRow | None, emulated: bool) -> tuple[DeviceUse, ...]:
    """Memory by the witness of DataParallel: tensors where its devices are logical, else the allocator."""
    if row is None:
        return ()
    runs = runs_of(row, evidence)
    inspected = evidence.inspection("ddp")
    tensors = inspected.memory.peak_bytes if inspected and inspected.memory else 0
    own = float(tensors or (inspected.peak_bytes or 0) if inspected else 0) or None
    nvml = _nvml_utilisation(runs) if row.device == "cuda" else {}
    experiment = evidence.experiment("ddp")
    figures = [one for one in (experiment.runs if experiment else ()) if one.name in row.run_names]
    found = []
    for rank in range(row.ranks):
        busy = [one.ranks[rank].busy_cores for one in figures if rank < len(one.ranks)]
        cores = _median(value / _threads(runs[0], rank) for value in busy if value is not None)
        peak = _median(one.ranks[rank].cuda_peak_allocated_bytes or 0 for one in figures if rank < len(one.ranks))
        used = _gpu_use(nvml, rank, row.ranks) or (cores, BY_CORES)
        held = (peak, BY_ALLOCATOR) if peak and not (emulated and own) else (own, f"{BY_TENSORS}, rank 0")
        found.append(DeviceUse(DDP, f"rank {rank}", *used, *held))
    return tuple(found)


def _gpu_use(nvml: dict[int, float], rank: int, ranks: int) -> tuple[float, str] | None:
    """The rank's own GPU, or the one that all of them share; None without any."""
    if len(nvml) >= ranks:
        return nvml[sorted(nvml)[rank]], BY_NVML
    return (nvml[min(nvml)], f"{BY_NVML}, {SHARED_GPU}") if nvml else None


def _threads(run: Run, rank: int) -> int:
    return max(1, len(run.spec.shares[rank])) if rank < len(run.spec.shares) else 1


def _nvml_utilisation(runs: list[Run]) -> dict[int, float]:
    """Median of the samples of every GPU, as nvidia-smi would show it, 0 to 1."""
    seen: dict[int, list[float]] = {}
    for run in runs:
        for sample in run.samples:
            for gpu in sample.gpus:
                if gpu.utilisation is not None:
                    seen.setdefault(gpu.index, []).append(gpu.utilisation)
    return {index: median(values) for index, values in seen.items()}


def busy_shares(inspected: Inspection) -> dict[str, float]:
    """Each device's work over the time in which any device works.

    Not over the whole step: between the layers an inspected step also holds the inspection's own book-keeping.
    """
    whole = _busy_ns(inspected, {row.device for row in inspected.timeline})
    devices = dict.fromkeys(row.device for row in inspected.timeline)
    return {device: _busy_ns(inspected, {device}) / whole for device in devices} if whole else {}


def alone_share(inspected: Inspection) -> float | None:
    """Share of that time in which the first device works and no other does."""
    devices = {row.device for row in inspected.timeline}
    whole = _busy_ns(inspected, devices)
    if len(devices) < 2 or not whole:
        return None
    return 1 - _busy_ns(inspected, devices - {min(devices)}) / whole


def _busy_ns(inspected: Inspection, devices: set[str]) -> int:
    """Time in which at least one of them works."""
    merged = union((row.begin_ns, row.end_ns) for row in inspected.timeline if row.device in devices)
    return sum(end - begin for begin, end in merged)


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return median(known) if known else None
