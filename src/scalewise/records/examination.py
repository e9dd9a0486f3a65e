"""The rows that an examined run writes once about what its notes refer to: lines, wrappers, loaders, parameters."""

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True)
class PlaceRow:
    """A line of the script, or of a module of the user's beside it."""

    index: int
    file: str
    line: int
    function: str
    text: str  # of the line, as it was when it ran


@dataclass(frozen=True)
class WrapperRow:
    """A DistributedDataParallel, DataParallel or FSDP module, as it was constructed."""

    index: int
    wrapper: str  # class name
    place: int
    device: str  # of its parameters
    gpu: str  # identity of that GPU, the same in all processes on the host; empty: no GPU
    parameter_bytes: int
    buffer_bytes: int
    batch_norms: int  # modules whose buffers change in training without the optimizer
    ranks: tuple[int, ...]  # of its process group
    options: dict[str, str | int | float | bool] = field(default_factory=dict)  # find_unused_parameters, ...


@dataclass(frozen=True)
class WrapperUseRow:
    """The use of a wrapper up to a step; only the last such row of a wrapper counts."""

    wrapper: int
    step: int
    bucket_bytes: tuple[int, ...]  # as DDP rebuilt them
    without_gradient: dict[str, int] = field(default_factory=dict)  # parameter name -> steps without its gradient
    steps_looked_at: int = 0
    buffers_changed: int = 0  # forward passes after which a buffer had changed
    buffer_checks: int = 0


@dataclass(frozen=True)
class LoaderRow:
    """A DataLoader, as it was constructed."""

    index: int
    place: int
    workers: int
    pinned: bool
    batch_size: int | None
    drop_last: bool
    sampler: str  # class name
    knows_ranks: bool  # the sampler has replicas and a rank
    samples: int | None  # of the dataset
    drawn: int | None  # by the sampler in one epoch
    iterable: bool
    seed: int | None = None  # of the sampler


@dataclass(frozen=True)
class WorkerSeedRow:
    """The random state with which the workers of a loader (or the rank itself, worker -1) began an epoch."""

    loader: int
    worker: int
    base_seed: int | None
    states: dict[str, str]  # torch, numpy, random -> digest of the generator's state
    used: dict[str, bool] = field(default_factory=dict)  # whether fetching a batch drew from that generator


@dataclass(frozen=True)
class ParameterSumsRow:
    """Sum and norm of every trained parameter in double precision: two ranks agree when these do."""

    step: int  # that has just ended, counted from 1
    wrapper: int
    sums: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class OptimizerRow:
    """An optimizer at its first step."""

    index: int
    optimizer: str  # class name
    place: int
    parameters: int
    owned: bool  # its class is torch's own
    options: dict[str, bool] = field(default_factory=dict)  # fused, foreach, capturable: as in effect, where known
    rates: tuple[float, ...] = ()  # learning rate of each parameter group; empty: not plain numbers, or an old file


@dataclass(frozen=True)
class DeviceUseRow:
    """The devices that a rank asked for and what it got, which may differ (`--on cpu` redirects)."""

    asked: tuple[str, ...]  # cuda, cuda:1, nccl, ...
    got: str
    redirected: dict[str, int] = field(default_factory=dict)  # call -> times
    unseen: tuple[str, ...] = ()  # calls for which there is no replacement


@dataclass(frozen=True)
class FailureRow:
    """The exception that ended the script."""

    error: str  # class name
    message: str
    place: int  # innermost line of the script
    places: tuple[int, ...] = ()  # all lines of the script in the traceback, innermost first
    without_gradient: tuple[str, ...] = ()  # parameters that had none in the first step


@dataclass(frozen=True)
class AppliedRow:
    """The number of times that a change has taken effect so far; only the last such row of a change counts."""

    FORMER: ClassVar[dict[str, str]] = {"change": "remedy"}

    change: str
    applied: int


@dataclass(frozen=True)
class AbstainedRow:
    """A change that cannot be made to this script, and why; the rank has ended itself."""

    change: str
    reason: str  # worded as the end of a sentence that begins with "because"


@dataclass(frozen=True)
class LauncherRow:
    """A start of processes by torch.multiprocessing (mp.spawn), as in a script that needs no torchrun."""

    place: int
    processes: int
    forked: bool  # forked processes are not watched


@dataclass(frozen=True)
class StagesRow:
    """The devices used before one backward pass of a model on several devices, in order of use."""

    step: int  # that it belongs to, counted from 1
    place: int
    devices: tuple[str, ...]
    chained: bool  # each device began with the result of the device before
    repeated: bool  # a layer was called more than once: pieces of the batch went through in sequence


@dataclass(frozen=True)
class PartRow:
    """The part of a dataset (a Subset) that a loader draws from."""

    loader: int
    place: int  # of the line that made it
    dataset: int  # number of the whole dataset in this process: two parts of one dataset have the same
    whole: int | None  # samples of the whole dataset
    samples: int  # of the part
    members: str  # digest of the set of indices
    order: str  # digest of the indices in their order
    first: tuple[int, ...]  # those indices of the part that lie among the first samples of the whole


@dataclass(frozen=True)
class LoadingRow:
    """The time spent on fetching a loader's batches; only the last such row of a loader and worker counts."""

    loader: int
    worker: int  # -1: the rank itself
    batches: int
    decode_ns: int  # in the dataset
    collate_ns: int
    pin_ns: int = 0  # copying to pinned memory, in the rank


UNUSED_PARAMETERS = "unused parameters"  # that a change found at the model's first call


@dataclass(frozen=True)
class MeasuredRow:
    """A number that a change measured where it took effect."""

    FORMER: ClassVar[dict[str, str]] = {"change": "remedy"}

    change: str
    what: str
    value: float


@dataclass(frozen=True)
class SettingsRow:
    """The switches of torch that decide speed, as they were at a backward pass; written when one has changed."""

    step: int  # the current step, counted from 1
    device: str  # name of the GPU of the loss; empty: none
    capability: tuple[int, ...]  # of that GPU, (9, 0)
    matmul_precision: str  # torch.get_float32_matmul_precision(): highest, high, medium
    cudnn_benchmark: bool
    cudnn_deterministic: bool  # or deterministic algorithms are asked for
    anomaly: bool  # anomaly detection is on
    anomaly_place: int  # line that switched it on, or NOWHERE
    launch_blocking: bool  # CUDA_LAUNCH_BLOCKING is set
    distributed_debug: str  # OFF, INFO, DETAIL


@dataclass(frozen=True)
class AttentionSeen:
    """An attention, softmax(Q K') V, computed step by step with the scores in memory."""

    shape: tuple[int, ...]  # of the scores
    dtype: str
    times: int


@dataclass(frozen=True)
class GraphRow:
    """The operations of one backward pass, counted in autograd's graph."""

    step: int
    device: str
    nodes: int
    matmuls: dict[str, int]  # dtype of the result -> count
    convolutions: int
    shapes: str  # digest of the shapes of all matmuls and convolutions
    attention: tuple[AttentionSeen, ...]
    fused_attention: int  # scaled_dot_product_attention by a fused kernel
    compiled: bool  # parts are compiled and cannot be inspected


@dataclass(frozen=True)
class AttentionRow:
    """A line that computes attention step by step, and the call that it uses."""

    place: int
    call: str  # softmax, scaled_dot_product_attention, multi_head_attention_forward


@dataclass(frozen=True)
class DeviceWorkRow:
    """The work of a GPU in a few settled steps, by its own records (CUPTI)."""

    step: int  # the first of these steps
    steps: int
    kernels: int
    busy_ns: int  # at least one kernel or copy was running
    kernel_ns: int  # sum over kernels
    span_ns: int  # from the first to the last of them; longer than usual because recording costs time
    optimizer_kernels: int  # launched inside optimizers' steps
    copies: dict[str, tuple[int, int]]  # `HtoD (Pageable -> Device)` -> count, nanoseconds
    slowest: dict[str, tuple[int, int]]  # names of the kernels that took longest -> count, nanoseconds


ExaminationRow = (
    PlaceRow
    | WrapperRow
    | WrapperUseRow
    | LoaderRow
    | WorkerSeedRow
    | ParameterSumsRow
    | OptimizerRow
    | DeviceUseRow
    | FailureRow
    | StagesRow
    | AppliedRow
    | AbstainedRow
    | LauncherRow
    | PartRow
    | LoadingRow
    | MeasuredRow
    | SettingsRow
    | GraphRow
    | AttentionRow
    | DeviceWorkRow
)

EXAMINATION_KINDS = {
    "place": PlaceRow,
    "wrapper": WrapperRow,
    "wrapper_use": WrapperUseRow,
    "loader_made": LoaderRow,
    "worker_seed": WorkerSeedRow,
    "parameter_sums": ParameterSumsRow,
    "optimizer_made": OptimizerRow,
    "device_use": DeviceUseRow,
    "failure": FailureRow,
    "stages": StagesRow,
    "remedy": AppliedRow,  # as older versions wrote it
    "applied": AppliedRow,
    "abstained": AbstainedRow,
    "launcher": LauncherRow,
    "part": PartRow,
    "loading": LoadingRow,
    "measured": MeasuredRow,
    "settings": SettingsRow,
    "graph": GraphRow,
    "attention": AttentionRow,
    "device_work": DeviceWorkRow,
}
