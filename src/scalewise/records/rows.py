"""The rows of a rank's file; durations are integer nanoseconds, everything after loading is in seconds.

The laws that hold in every complete `StepRow`:

    step = forward + backward + optimizer + data inside the step + rest
    loop iteration = step + between + data outside the step,   data = data inside + data outside
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from scalewise.records.examination import EXAMINATION_KINDS, ExaminationRow
from scalewise.records.inspection import (
    UTILISATION_KINDS,
    BusyRow,
    DeviceMemoryRow,
    GradientRow,
    InspectionRow,
    LayerRow,
    MemoryByLineRow,
    MemoryPartsRow,
    TransferRow,
    UtilisationRow,
)
from scalewise.records.parity import PARITY_KINDS, ParityRow
from scalewise.records.rehearsal import REHEARSAL_KINDS, RehearsalRow

ClockName = Literal["host", "cuda_events", "synchronised"]


@dataclass(frozen=True)
class StartRow:
    """The rank as the watcher found it when its first step opened."""

    FORMER: ClassVar[dict[str, str]] = {"changes": "interventions"}

    rank: int
    local_rank: int
    world_size: int
    pid: int
    host: str
    python: str
    torch: str
    threads: int
    affinity: tuple[int, ...]
    started_unix_seconds: float
    changes: tuple[str, ...]
    rss_bytes: int
    libraries: dict[str, str] = field(default_factory=dict)  # loaded native libraries that decide speed
    isa: str = ""  # what torch says it dispatches to, and the cap set on oneDNN


@dataclass(frozen=True)
class ModelRow:
    """The model as the optimizers hold it: the evidence that two runs do equal work."""

    step: int
    parameters: int
    parameter_bytes: int
    dtypes: tuple[str, ...]
    devices: tuple[str, ...]
    shapes_digest: str
    optimizers: tuple[str, ...]
    wrapper: str  # DistributedDataParallel, FSDP, DataParallel, or empty
    clock: ClockName
    averaged_over: tuple[int, ...] = ()  # ranks over which FSDP averages this rank's gradients
    split_over: tuple[int, ...] = ()  # ranks that each hold a part of one tensor (DTensor), those of FSDP not counted
    placements: tuple[str, ...] = ()  # of the parameters that are DTensors, each kind once


@dataclass(frozen=True)
class StepRow:
    """One optimizer step of one rank, put together from the rank's events."""

    step: int  # numbers are missing where a fast loop was watched only some of the time
    optimizer: int  # which of the script's optimizers ended this step, in order of first use
    at_ns: int  # start of the step, since the rank's start row
    step_ns: int  # before the first forward to after the optimizer step, device synchronised
    data_ns: int  # waiting in DataLoader.__next__ since the previous step ended
    data_inside_ns: int  # the part of `data_ns` between this step's first forward and its end
    forward_ns: int | None  # None: not resolved for this step (device timing is sampled)
    backward_ns: int | None
    optimizer_ns: int | None
    rest_ns: int | None
    between_ns: int | None  # outside any step since the previous one, without waiting for data; None: first step
    micro_batches: int  # backward passes in the step
    samples: int | None = None  # rows of the input that can be seen, over the micro-batches
    loss: float | None = None  # sum over the micro-batches of what backward was called on, before scaling
    non_finite: bool = False  # the loss was not a finite number
    autocast: str | None = None
    scale: float | None = None  # of the GradScaler, before this step's update
    skipped: bool = False  # the GradScaler found a non-finite gradient and did not step
    collectives: dict[str, tuple[int, int]] = field(default_factory=dict)  # kind -> count, bytes
    collective_ns: int = 0  # blocked inside collectives that the script (or FSDP) called itself
    turn_ns: int | None = None  # waited for its turn, in no other figure; None: no turns were taken
    opened_by: int | None = None  # number of the module whose call opened the step (`RootRow`); None: no call was seen
    samples_at: int | None = None  # number of the module at whose input the samples were counted
    samples_unknown: str = ""  # why `samples` is None: a key of `records.samples.REASONS`; empty in old files


@dataclass(frozen=True)
class MemoryRow:
    """Memory at a sampled step; peaks are as the script sees them: since its start, or since it reset them."""

    step: int
    peak_rss_bytes: int
    minor_faults: int
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    heap_at_backward_bytes: int | None  # CPU: tensors and all else on the C heap when backward began
    heap_after_step_bytes: int | None
    cuda_peak_allocated_bytes: int | None
    cuda_peak_reserved_bytes: int | None
    cuda_stretch_peak_bytes: int | None = None  # since the previous row; None: not measured separately, or an old file


@dataclass(frozen=True)
class LevelRow:
    """The memory in use between two steps, about twice a second; growth is judged from these."""

    step: int  # the next one
    rss_bytes: int
    heap_bytes: int | None  # on the C heap, where CPU tensors live
    cuda_allocated_bytes: int | None  # over the rank's GPUs
    cuda_reserved_bytes: int | None


REDUCER_TIMER = "DDP's reducer timer"  # its name, and with what it measures, as rows tell it
BY_REDUCER_TIMER = (
    f"{REDUCER_TIMER}: communication minus its overlap with backward; a lower bound, "
    "because computation slowed by communication on the same cores is not in it"
)


@dataclass(frozen=True)
class ExposedRow:
    """Communication that a sampled backward pass could not hide behind computation."""

    step: int
    exposed_ns: int
    communication_ns: int
    method: str


@dataclass(frozen=True)
class ParametersRow:
    """The parameters when the script ends, in two numbers: ranks that train one model together agree on them."""

    tensors: int
    total: float
    norm: float


@dataclass(frozen=True)
class RootRow:
    """A module that the script itself calls in a training step; steps open and samples are counted at such modules."""

    number: int  # in order of first call
    name: str  # of its class, without the wrappers around it


@dataclass(frozen=True)
class TroubleRow:
    """A failure of a hook of the watcher: the script went on, and this is missing."""

    where: str
    error: str
    raised_by: tuple[str, ...] = ()  # the error ended the script: concerns of `records.wrapped`


@dataclass(frozen=True)
class EndRow:
    """The last row, written when the interpreter shuts down in order; absent after a kill."""

    FORMER: ClassVar[dict[str, str]] = {"changes_applied": "interventions_applied"}

    steps: int
    exception: str | None
    changes_applied: dict[str, int] = field(default_factory=dict)
    passes_without_step: int = 0  # backward passes of a run in which no optimizer stepped


Row = (
    StartRow
    | ModelRow
    | StepRow
    | MemoryRow
    | LevelRow
    | ExposedRow
    | TroubleRow
    | EndRow
    | InspectionRow
    | ExaminationRow
    | RehearsalRow
    | ParametersRow
    | RootRow
    | UtilisationRow
    | ParityRow
)

# Lines that are written as they are; steps are written as events (`records.events`).
ROW_KINDS: dict[str, type[Any]] = {
    "start": StartRow,
    "model": ModelRow,
    "memory": MemoryRow,
    "exposed": ExposedRow,
    "trouble": TroubleRow,
    "end": EndRow,
    "layer": LayerRow,
    "transfer": TransferRow,
    "busy": BusyRow,
    "device_memory": DeviceMemoryRow,
    "memory_parts": MemoryPartsRow,
    "gradient": GradientRow,
    "memory_by_line": MemoryByLineRow,
    "level": LevelRow,
    **EXAMINATION_KINDS,
    **REHEARSAL_KINDS,
    "parameters": ParametersRow,
    "root": RootRow,
    **UTILISATION_KINDS,
    **PARITY_KINDS,
}
