"""What an examined run notes beside its steps: one short list per call that tells a right loop from a wrong one.

Written as `{"kind": "notes", "notes": [[name, at_ns, place, ...], ...]}`; the values follow in the order of the fields.
A note is made when its call returns, unless it says otherwise; `place` is the line of the script that called.
"""

import dataclasses
from dataclasses import dataclass

INDIRECT = ", indirect"  # after the name of a call: a library made it on the script's behalf
BUFFERS = "buffers"  # a collective: DDP broadcasts them before a forward pass
NOWHERE = -1  # no line of the script, no wrapper, no loader, no optimizer


@dataclass(frozen=True)
class Note:
    """A moment and a line of the script."""

    at_ns: int  # time.perf_counter_ns(): the clock of one rank only
    place: int  # index of a `PlaceRow`, or NOWHERE


@dataclass(frozen=True)
class ForwardNote(Note):
    """The outermost module was called; digests are taken of the first forward passes only."""

    module: str  # class name
    wrapper: int  # index of the `WrapperRow` that was called, or NOWHERE
    bypassed: int  # index of the wrapper whose inner module was called directly, past it, or NOWHERE
    sync: bool  # the wrapper was armed to reduce gradients in the next backward
    trains: bool  # gradients enabled and the module in training mode
    rows: int | None
    autocast: str | None  # float16, bfloat16
    duration_ns: int
    digest: str | None = None  # of the first input tensor
    row_digests: list[str] = dataclasses.field(default_factory=list)  # of its rows


@dataclass(frozen=True)
class BackwardNote(Note):
    """An outermost backward pass; `factor` and what follows only in the first windows."""

    duration_ns: int
    autocast: str | None  # of the thread, when backward was called
    loss: float | None  # what it was called on, where reading is free
    had_gradient: bool | None  # the probe parameter held a gradient that is not zero before; None: not known
    factor: float | None  # gradient that reached the loss's own reduction: 1/4 for (mean / 4).backward()
    reduction: str  # mean, sum, unknown
    elements: int | None  # that the reduction counted (not those it was told to ignore); None: not known
    closure: bool  # inside an optimizer's step (LBFGS)
    gained: float | None = None  # norm of what this pass added to the probe parameter's gradient


@dataclass(frozen=True)
class ComputedNote(Note):
    """Inside a backward pass on the host: all gradients are computed, and what follows is waiting for other ranks."""

    duration_ns: int  # since the pass began


@dataclass(frozen=True)
class ZeroNote(Note):
    """`zero_grad` of an optimizer or a module, or gradients set to None by hand as far as that is seen."""

    optimizer: int  # index, or NOWHERE for a module
    had_gradients: bool  # there was something to throw away


@dataclass(frozen=True)
class StepNote(Note):
    """An optimizer's step is over."""

    optimizer: int
    duration_ns: int
    skipped: bool  # a scaler found a gradient that was not finite
    scaled: bool  # called by a scaler
    ratio: float | None  # the gradient that is applied over that which backward left, of the probe parameter
    gradients: int  # parameters that had one
    parameters: int  # that could have one
    left: float | None = None  # norm of the gradient that backward left, of the probe parameter
    norm: float | None = None  # of the gradient that is applied, as it would be without clipping


@dataclass(frozen=True)
class ScheduleNote(Note):
    """A learning-rate scheduler stepped (not the step its constructor makes)."""

    scheduler: int
    optimizer: int
    rate: float  # after it


@dataclass(frozen=True)
class ScalerNote(Note):
    """A call of an enabled GradScaler."""

    call: str  # scale, unscale_, step, update
    scaler: int
    scale: float | None


@dataclass(frozen=True)
class ClipNote(Note):
    """Gradients are about to be clipped."""

    how: str  # norm, value
    limit: float
    norm: float | None  # that was found, before clipping, where it is known without waiting
    ratio: float | None  # of the probe parameter's gradient now over that which backward left


@dataclass(frozen=True)
class AutocastNote(Note):
    """An enabled autocast region is entered with gradients enabled."""

    device: str
    dtype: str


@dataclass(frozen=True)
class NoSyncNote(Note):
    """`no_sync()` of a wrapper is entered."""

    wrapper: int


@dataclass(frozen=True)
class CollectiveNote(Note):
    """A collective or a message through torch.distributed is about to be entered; on disk before it can block."""

    operation: str  # all_reduce, barrier, send, ...
    size_bytes: int
    ranks: list[int]  # of the group; empty: all
    peer: int  # other end of a send or recv, source of a broadcast; NOWHERE: none
    waits: bool  # the caller waits for it


@dataclass(frozen=True)
class CollectiveDoneNote(Note):
    """It has returned."""

    operation: str
    duration_ns: int


@dataclass(frozen=True)
class LoaderNote(Note):
    """A DataLoader is asked for an iterator: an epoch begins."""

    loader: int


@dataclass(frozen=True)
class BatchNote(Note):
    """A batch was waited for."""

    loader: int
    wait_ns: int


@dataclass(frozen=True)
class ExhaustedNote(Note):
    """A loader had no more batches."""

    loader: int


@dataclass(frozen=True)
class SamplerNote(Note):
    """A sampler that knows of ranks is asked for its order."""

    sampler: int
    epoch: int
    shuffle: bool
    seed: int
    rank: int
    replicas: int


@dataclass(frozen=True)
class SetEpochNote(Note):
    """`set_epoch` of such a sampler."""

    sampler: int
    epoch: int


@dataclass(frozen=True)
class SaveNote(Note):
    """`torch.save` to a file."""

    path: str  # real path; empty: not a file by name
    size_bytes: int


@dataclass(frozen=True)
class HostReadNote(Note):
    """A tensor of a device was read by the host (item, cpu, bool, ...), which waits for the device."""

    call: str
    device: str
    wait_ns: int
    by: str = ""  # the library's module that read on the script's behalf; empty: the script itself


@dataclass(frozen=True)
class ClockNote(Note):
    """The script read a clock."""

    function: str  # time.time, time.perf_counter, Event.record, ...


@dataclass(frozen=True)
class DeviceSyncNote(Note):
    """The script waited for its device: synchronize of a device, stream or event."""

    call: str


@dataclass(frozen=True)
class KeptNote(Note):
    """At a step 1, 2, 4, ... and at the end: losses that still live, and what memory holds."""

    step: int
    alive: int
    seen: int
    graphs: int  # the most graphs of losses that were held at the end of a step since the last such note
    held_bytes: int | None  # heap on a CPU, allocated on a GPU, outside any step


@dataclass(frozen=True)
class GroupNote(Note):
    """The process group was made or destroyed."""

    event: str  # init, destroy
    backend: str
    world_size: int


@dataclass(frozen=True)
class WarningNote(Note):
    """The script's process was warned."""

    category: str
    text: str


@dataclass(frozen=True)
class TrainingModeNote(Note):
    """A module was called without gradients while layers in it still behave as in training."""

    module: str  # class name
    trained: bool  # this module, or the wrapper around it, was called to train before
    dropouts: int  # active dropout layers in it
    batch_norms: int  # layers that normalise by the batch and update their running statistics
    digest: str | None  # of the first input tensor
    inputs: list[str]  # digests of its first rows


@dataclass(frozen=True)
class GradientsNote(Note):
    """An optimizer is about to step: whether any gradient it sees differs from zero."""

    optimizer: int
    present: int  # parameters that have a gradient
    zero: bool  # every one of those gradients is exactly zero
    classes: int | None  # that the last cross entropy chose among; None: not known
    norm: float | None  # of all gradients that this rank holds, as they are applied; None: not read
    shard_ranks: list[int]  # ranks that hold the other shards of these parameters (DTensor); empty: not sharded so


@dataclass(frozen=True)
class BatchNormNote(Note):
    """A batch-normalisation layer normalised a batch of this rank alone, in training."""

    layer: int  # in the order of their first calls
    samples: int
    values: int  # per channel
    means: list[float]  # of the first channels
    variances: list[float]


@dataclass(frozen=True)
class SeedNote(Note):
    """The script seeded a generator."""

    call: str  # torch.manual_seed, numpy.random.seed, random.seed


@dataclass(frozen=True)
class TwiceNote(Note):
    """A loss that normalises its input by itself was given one that is normalised already."""

    loss: str  # cross_entropy, binary_cross_entropy_with_logits
    before: str  # softmax, sigmoid


@dataclass(frozen=True)
class CopyNote(Note):
    """A tensor of the host was copied to a device."""

    call: str  # to, cuda, copy_
    size_bytes: int
    pinned: bool | None  # None: not asked, because the device is stood in for
    non_blocking: bool
    duration_ns: int  # of the call on the host
    again: int  # times that the same tensor, unchanged, was copied before


@dataclass(frozen=True)
class HousekeepingNote(Note):
    """The script tidied memory up by hand: `torch.cuda.empty_cache`, `gc.collect`, ..."""

    call: str
    duration_ns: int


@dataclass(frozen=True)
class CompileNote(Note):
    """torch.compile compiled a function, or compiled it again because a guard of the last compilation failed."""

    function: str  # name, file and line of the function
    reason: str  # the guard that failed, as torch writes it; empty: the first compilation
    duration_ns: int


NOTE_KINDS: dict[str, type[Note]] = {
    "forward": ForwardNote,
    "backward": BackwardNote,
    "computed": ComputedNote,
    "zero": ZeroNote,
    "step": StepNote,
    "schedule": ScheduleNote,
    "scaler": ScalerNote,
    "clip": ClipNote,
    "autocast": AutocastNote,
    "no_sync": NoSyncNote,
    "collective": CollectiveNote,
    "collective_done": CollectiveDoneNote,
    "loader": LoaderNote,
    "batch": BatchNote,
    "exhausted": ExhaustedNote,
    "sampler": SamplerNote,
    "set_epoch": SetEpochNote,
    "save": SaveNote,
    "host_read": HostReadNote,
    "clock": ClockNote,
    "device_sync": DeviceSyncNote,
    "kept": KeptNote,
    "group": GroupNote,
    "warning": WarningNote,
    "training_mode": TrainingModeNote,
    "gradients": GradientsNote,
    "batch_norm": BatchNormNote,
    "seed": SeedNote,
    "twice": TwiceNote,
    "copy": CopyNote,
    "housekeeping": HousekeepingNote,
    "compile": CompileNote,
}
