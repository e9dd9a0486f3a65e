"""Facts of the machine on which a run was made, and samples of its state during the run."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class GpuFacts:
    """One visible GPU."""

    index: int
    name: str
    memory_bytes: int
    uuid: str


@dataclass(frozen=True)
class PrecisionProbe:
    """A precision tried in a process of its own, and whether a training step survives in it on this CPU."""

    precision: str  # float32, bfloat16, float16
    isa_cap: str  # value of ONEDNN_MAX_CPU_ISA; empty: none
    result: str  # works, or what killed it: SIGILL, RuntimeError: ...


@dataclass(frozen=True)
class PeakRates:
    """The fastest rates of one rank's device that were measured here."""

    device: str  # cuda, cpu
    name: str  # of the GPU, or of the CPU
    cores: int  # of the rank; 0: not pinned
    threads: int  # that torch used
    torch: str
    made_unix_seconds: float
    flops_per_second: dict[str, float]  # of matrix products, by precision: float32, tf32, bfloat16, ...
    copy_bytes_per_second: float  # read and written


@dataclass(frozen=True)
class MachineFacts:
    """The hardware, the versions, and the instruction set that really works here."""

    host: str
    system: str  # Linux 6.1.0 x86_64
    cpu_model: str
    cores: tuple[int, ...]  # those that this process may use
    memory_bytes: int
    governor: str | None  # None: not visible
    virtual: bool
    isa_advertised: tuple[str, ...]  # the flags that matter to matrix code
    isa_cap: str  # the widest cap under which every precision works; empty: none needed
    probes: tuple[PrecisionProbe, ...]
    gpus: tuple[GpuFacts, ...]
    versions: dict[str, str] = field(default_factory=dict)  # python, torch, cuda, nccl, scalewise, driver
    peaks: tuple[PeakRates, ...] = ()  # measured for the cores or GPUs of ranks that were inspected here
    # For a page of memory that a process touches first; None: not measured. It is another each time.
    page_seconds: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class GpuSample:
    """One GPU at one moment, from NVML."""

    index: int
    utilisation: float | None
    memory_bytes: int | None
    sm_clock_mhz: int | None
    power_watts: float | None
    temperature_celsius: int | None
    throttle_reasons: tuple[str, ...]


@dataclass(frozen=True)
class SampleRow:
    """The machine at one moment of a run, sampled by the parent; a line of `samples.jsonl`."""

    at_seconds: float  # since the run's start
    busy: float  # share of all usable cores in use since the last sample
    foreign: float  # the part of `busy` that is neither the ranks nor their parent
    steal: float | None
    pressure: float | None  # share of time in which some task waited for a core (PSI)
    rank_busy: tuple[float, ...]  # cores in use by each rank and its children
    gpus: tuple[GpuSample, ...] = ()
    rank_steps: tuple[int, ...] = ()  # steps that each rank had ended
    worker_bytes: tuple[int, ...] = ()  # memory that the processes started by each rank do not share with others
