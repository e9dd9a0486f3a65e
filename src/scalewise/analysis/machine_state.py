"""Reads from the samples taken beside a run the state of the machine: foreign load, clocks, throttling."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from scalewise.records.load import Run
from scalewise.records.machine import GpuSample, SampleRow

# Above a tenth of the cores in foreign use, medians of fresh processes spread 8.8 % instead of 2.8 % (measured).
FOREIGN_SHARE = 0.10
STEAL_SHARE = 0.05  # time taken by the hypervisor; as large as the smallest effect worth reporting
# Ranks also wait for each other's threads, so pressure counts only beside some foreign load.
PRESSURE_SHARE = 0.25
PRESSURE_FOREIGN_SHARE = 0.05
BUSY_GPU = 0.5  # utilisation above which a low clock means throttling rather than idling
LEAST_GPU_SAMPLES = 4  # two seconds of training
CLOCK_DROP = 0.05  # GPU Boost steps are about 1 %; 5 % moves a compute-bound step by as much
REST_REASONS = ("idle", "none", "applications_clocks", "application_clocks")  # NVML's reasons that are not throttling


@dataclass(frozen=True)
class MachineState:
    """Shares of all usable cores over a run; None if not sampled."""

    foreign: float | None
    steal: float | None
    pressure: float | None

    @property
    def loaded(self) -> bool:
        """Tells whether others used the machine so much that the number is in doubt."""
        foreign, steal, pressure = self.foreign or 0.0, self.steal or 0.0, self.pressure or 0.0
        pressed = pressure > PRESSURE_SHARE and foreign > PRESSURE_FOREIGN_SHARE
        return foreign > FOREIGN_SHARE or steal > STEAL_SHARE or pressed

    def text(self) -> str:
        """The figures as text, for evidence."""
        named = (("foreign load", self.foreign), ("steal", self.steal), ("CPU pressure", self.pressure))
        return ", ".join(f"{name} {share * 100:.0f} %" for name, share in named if share is not None)


def machine_state(run: Run) -> MachineState:
    """The state of the machine: medians over its samples, on several hosts those of the worst one."""

    def worst(read: Callable[[SampleRow], float | None]) -> float | None:
        of_hosts = [[read(row) for row in samples] for samples in (run.samples, *run.elsewhere)]
        known = [[value for value in values if value is not None] for values in of_hosts]
        return max((median(values) for values in known if values), default=None)

    return MachineState(
        foreign=worst(lambda row: row.foreign),
        steal=worst(lambda row: row.steal),
        pressure=worst(lambda row: row.pressure),
    )


def gpu_busy_share(run: Run) -> float | None:
    """The share of time in which the run's GPUs ran a kernel, by NVML; None if too little was sampled.

    Only samples with steps both before and after them count: NVML's figures cover up to a second, so samples near
    the import of torch, compiling or the end of the run would include those.
    """
    made = [min(row.rank_steps, default=0) for row in run.samples]
    training = [
        row
        for before, row, now, after in zip(made, run.samples[1:-1], made[1:], made[2:], strict=False)
        if 0 < before < now < after
    ]
    by_gpu: dict[int, list[float]] = {}
    for row in training:
        for gpu in row.gpus:
            if gpu.utilisation is not None:
                by_gpu.setdefault(gpu.index, []).append(_share(gpu.utilisation))
    # NVML reports every GPU of the machine; the run's own are the busiest.
    own = sorted(by_gpu.values(), key=median, reverse=True)[: run.spec.ranks]
    shares = [share for one in own for share in one]
    return median(shares) if len(shares) >= LEAST_GPU_SAMPLES else None


def gpu_bytes_per_rank(run: Run) -> int | None:
    """The memory of a GPU that a rank may fill; None if the machine's GPUs differ, as its own is then not known."""
    sizes = [gpu.memory_bytes for gpu in run.machine.gpus] if run.machine else []
    if len(set(sizes)) != 1:
        return None
    return sizes[0] // max(1, -(-run.spec.ranks // len(sizes)))


def throttle_text(run: Run) -> str:
    """A text about how the run's GPUs were slowed, with numbers; empty if they were not."""
    by_gpu: dict[int, list[GpuSample]] = {}
    for row in run.samples:
        for gpu in row.gpus:
            by_gpu.setdefault(gpu.index, []).append(gpu)
    texts = [text for index, samples in sorted(by_gpu.items()) for text in _held_back(index, samples)]
    return "; ".join(texts)


def _held_back(index: int, samples: list[GpuSample]) -> list[str]:
    texts = []
    named = [[name for name in gpu.throttle_reasons if not _rests(name)] for gpu in samples]
    held = [names for names in named if names]
    if held:
        words = ", ".join(sorted({name for names in held for name in names}))
        texts.append(f"GPU {index} reported {words} in {len(held)} of {len(samples)} samples")
    clocks = [gpu.sm_clock_mhz for gpu in samples if gpu.sm_clock_mhz and _share(gpu.utilisation) > BUSY_GPU]
    if len(clocks) >= 4 and median(clocks) < (1 - CLOCK_DROP) * max(clocks):
        texts.append(f"GPU {index} fell from {max(clocks)} to {median(clocks):.0f} MHz under load")
    return texts


def _rests(reason: str) -> bool:
    return any(word in reason.lower().replace(" ", "_") for word in REST_REASONS)


def _share(utilisation: float | None) -> float:
    value = utilisation or 0.0
    return value / 100 if value > 1 else value
