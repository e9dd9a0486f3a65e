"""The notes that an examined run writes beside its steps: one short list per call that matters to a check.

They are written as `{"kind": "notes", "notes": [[name, at_ns, place, ...], ...]}`; the values follow in the order of
the fields. A note is made when its call returns, unless it says otherwise; `place` is the script's line that called.
"""

import dataclasses
import functools
import types
import typing
from dataclasses import dataclass
from typing import Any

INDIRECT = ", indirect"  # follows the name of a call: a library made it on the script's behalf
BUFFERS = "buffers"  # a collective: DDP broadcasts buffers before a forward pass
NOWHERE = -1  # no line of the script, no wrapper, no loader, no optimizer


@dataclass(frozen=True)
class Note:
    """A note of an examined run: a moment and a line of the script."""

    at_ns: int  # time.perf_counter_ns(): the clock of one rank only
    place: int  # index of a `PlaceRow`, or NOWHERE


@dataclass(frozen=True)
class ForwardNote(Note):
    """A call of the outermost module; digests are taken of the first forward passes only."""

    module: str  # class name
    wrapper: int  # index of the `WrapperRow` that was called, or NOWHERE
    bypassed: int  # index of the wrapper whose inner module was called directly, or NOWHERE
    sync: bool  # the wrapper was set to reduce gradients in the next backward
    trains: bool  # gradients enabled and the module in training mode
    rows: int | None
    autocast: str | None  # float16, bfloat16
    duration_ns: int
    digest: str | None = None  # of the first input tensor
    row_digests: list[str] = dataclasses.field(default_factory=list)  # of its rows


@dataclass(frozen=True)
class BackwardNote(Note):
    """The end of an outermost backward pass; `factor` and the fields after it are known in the first windows only."""

    duration_ns: int
    autocast: str | None  # of the thread, when backward was called
    loss: float | None  # on which backward was called, where reading is free
    had_gradient: bool | None  # before this pass the probe parameter held a gradient other than zero; None: not known
    factor: float | None  # gradient that reached the loss's own reduction: 1/4 for (mean / 4).backward()
    reduction: str  # mean, sum, unknown
    elements: int | None  # elements that the reduction counted (without those that it ignores); None: not known
    closure: bool  # inside an optimizer's step (LBFGS)
    gained: float | None = None  # norm of what this pass added to the probe parameter's gradient


@dataclass(frozen=True)
class ComputedNote(Note):
    """The moment in a backward pass on the host when all gradients are computed; then it waits for other ranks."""

    duration_ns: int  # since the pass began


@dataclass(frozen=True)
class ZeroNote(Note):
    """A reset of gradients: `zero_grad` of an optimizer or module, or set to None by hand where that is seen."""

    optimizer: int  # index, or NOWHERE for a module
    had_gradients: bool  # there were gradients to discard


@dataclass(frozen=True)
class StepNote(Note):
    """The end of an optimizer's step."""

    optimizer: int
    duration_ns: int
    skipped: bool  # a scaler found a gradient that was not finite
    scaled: bool  # called by a scaler
    ratio: float | None  # of the probe parameter: the applied gradient over the one that backward left
    gradients: int  # parameters that had a gradient
    parameters: int  # parameters that could have one
    left: float | None = None  # norm of the probe parameter's gradient that backward left
    norm: float | None = None  # norm of its applied gradient, as it would be without clipping


@dataclass(frozen=True)
class ScheduleNote(Note):
    """A step of a learning-rate scheduler (not the step that its constructor makes)."""

    scheduler: int
    optimizer: int
    rate: float  # after the step


@dataclass(frozen=True)
class ScalerNote(Note):
    """A call of an enabled GradScaler."""

    call: str  # scale, unscale_, step, update
    scaler: int
    scale: float | None


@dataclass(frozen=True)
class ClipNote(Note):
    """The moment just before gradients are clipped."""

    how: str  # norm, value
    limit: float
    norm: float | None  # found before clipping, where it is known without waiting
    ratio: float | None  # of the probe parameter: the gradient now over the one that backward left


@dataclass(frozen=True)
class AutocastNote(Note):
    """The entry into an enabled autocast region with gradients enabled."""

    device: str
    dtype: str


@dataclass(frozen=True)
class NoSyncNote(Note):
    """The entry into `no_sync()` of a wrapper."""

    wrapper: int


@dataclass(frozen=True)
class CollectiveNote(Note):
    """The moment before a collective or message through torch.distributed; written to disk before it can block."""

    operation: str  # all_reduce, barrier, send, ...
    size_bytes: int
    ranks: list[int]  # of the group; empty: all
    peer: int  # other end of a send or recv, source of a broadcast; NOWHERE: none
    waits: bool  # the caller waits for it


@dataclass(frozen=True)
class CollectiveDoneNote(Note):
    """The return of the collective or message of the last CollectiveNote."""

    operation: str
    duration_ns: int


@dataclass(frozen=True)
class LoaderNote(Note):
    """A request to a DataLoader for an iterator, which begins an epoch."""

    loader: int


@dataclass(frozen=True)
class BatchNote(Note):
    """A wait for a batch."""

    loader: int
    wait_ns: int


@dataclass(frozen=True)
class ExhaustedNote(Note):
    """The end of a loader's batches."""

    loader: int


@dataclass(frozen=True)
class SamplerNote(Note):
    """A request for the order of a sampler that knows of ranks."""

    sampler: int
    epoch: int
    shuffle: bool
    seed: int
    rank: int
    replicas: int


@dataclass(frozen=True)
class SetEpochNote(Note):
    """A call of `set_epoch` of a sampler that knows of ranks."""

    sampler: int
    epoch: int


@dataclass(frozen=True)
class SaveNote(Note):
    """A `torch.save` to a file."""

    path: str  # real path; empty: not a file by name
    size_bytes: int


@dataclass(frozen=True)
class HostReadNote(Note):
    """A read of a device's tensor by the host (item, cpu, bool, ...), which waits for the device."""

    call: str
    device: str
    wait_ns: int
    by: str = ""  # the library's module that read on the script's behalf; empty: the script itself


@dataclass(frozen=True)
class ClockNote(Note):
    """A read of a clock by the script."""

    function: str  # time.time, time.perf_counter, Event.record, ...


@dataclass(frozen=True)
class DeviceSyncNote(Note):
    """A wait of the script for its device: synchronize of a device, stream or event."""

    call: str


@dataclass(frozen=True)
class KeptNote(Note):
    """The losses that are still alive and the memory held, at steps 1, 2, 4, ... and at the end."""

    step: int
    alive: int
    seen: int
    graphs: int  # the largest number of losses' graphs held at the end of a step since the last such note
    held_bytes: int | None  # on the heap of a CPU, or allocated on a GPU, outside any step


@dataclass(frozen=True)
class GroupNote(Note):
    """The creation or destruction of the process group."""

    event: str  # init, destroy
    backend: str
    world_size: int


@dataclass(frozen=True)
class WarningNote(Note):
    """A warning in the script's process."""

    category: str
    text: str


@dataclass(frozen=True)
class TrainingModeNote(Note):
    """A call of a module without gradients while layers in it still behave as in training."""

    module: str  # class name
    trained: bool  # this module, or the wrapper around it, was called for training before
    dropouts: int  # active dropout layers in it
    batch_norms: int  # layers that normalise by the batch and update their running statistics
    digest: str | None  # of the first input tensor
    inputs: list[str]  # digests of its first rows


@dataclass(frozen=True)
class GradientsNote(Note):
    """The gradients just before an optimizer steps: whether any of them differs from zero, and their norm."""

    optimizer: int
    present: int  # parameters that have a gradient
    zero: bool  # every one of those gradients is exactly zero
    classes: int | None  # number of classes in the last cross entropy; None: not known
    norm: float | None  # of all gradients that this rank holds, as they are applied; None: not read
    shard_ranks: list[int]  # ranks that hold the other shards of these parameters (DTensor); empty: not so sharded


@dataclass(frozen=True)
class BatchNormNote(Note):
    """A normalisation of a batch of this rank alone by a batch-normalisation layer, in training."""

    layer: int  # in the order of their first calls
    samples: int
    values: int  # per channel
    means: list[float]  # of the first channels
    variances: list[float]


@dataclass(frozen=True)
class SeedNote(Note):
    """A seeding of a generator by the script."""

    call: str  # torch.manual_seed, numpy.random.seed, random.seed


@dataclass(frozen=True)
class TwiceNote(Note):
    """A call of a loss that normalises its input with an input that is already normalised."""

    loss: str  # cross_entropy, binary_cross_entropy_with_logits
    before: str  # softmax, sigmoid


@dataclass(frozen=True)
class CopyNote(Note):
    """A copy of a tensor of the host to a device."""

    call: str  # to, cuda, copy_
    size_bytes: int
    pinned: bool | None  # None: not asked, because the device is a stand-in
    non_blocking: bool
    duration_ns: int  # of the call on the host
    again: int  # number of times that the same tensor, unchanged, was copied before


@dataclass(frozen=True)
class HousekeepingNote(Note):
    """A freeing of memory by hand in the script: `torch.cuda.empty_cache`, `gc.collect`, ..."""

    call: str
    duration_ns: int


@dataclass(frozen=True)
class CompileNote(Note):
    """A compilation by torch.compile of a function, possibly again because a guard of the last compilation failed."""

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


class NoteError(ValueError):
    """The error for a list that is not a note."""


def read_note(values: Any) -> Note:
    """The note in a list of its name and values."""
    name = values[0] if isinstance(values, list) and values else None
    if not isinstance(name, str) or name not in NOTE_KINDS:
        raise NoteError(f"not a note: {str(values)[:60]}")
    kind = NOTE_KINDS[name]
    types, least = _shape(name)
    if not least <= len(values) - 1 <= len(types) or not all(map(isinstance, values[1:], types)):
        raise NoteError(f"a note {name!r} has the values {str(values[1:])[:80]}")
    return kind(*values[1:])


@functools.cache
def _shape(name: str) -> tuple[tuple[tuple[type, ...], ...], int]:
    """The types that each value of a note may have, and the smallest number of values."""
    kind = NOTE_KINDS[name]
    hints, fields = typing.get_type_hints(kind), dataclasses.fields(kind)
    missing = dataclasses.MISSING
    least = sum(one.default is missing and one.default_factory is missing for one in fields)
    return tuple(_plain(hints[one.name]) for one in fields), least


def _plain(hint: Any) -> tuple[type, ...]:
    """The types that a JSON value of this annotation may have."""
    if isinstance(hint, types.UnionType):
        return tuple(one for member in typing.get_args(hint) for one in _plain(member))
    origin: Any = typing.get_origin(hint) or hint
    return (float, int) if origin is float else (origin,)
