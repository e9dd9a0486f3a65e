"""Looks at the rank and its model at sampled steps: what the rank is, what it trains, how much memory that takes."""

import ctypes
import hashlib
import os
import platform
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import torch
from torch import nn

from scalewise.records.rows import BY_REDUCER_TIMER, ExposedRow, LevelRow, MemoryRow, ModelRow, ParametersRow, StartRow
from scalewise.watch.layout import layout_of
from scalewise.watch.look_intervals import LEVEL_NS
from scalewise.watch.recorder import Recorder
from scalewise.watch.reducer import Reducer
from scalewise.watch.step_clocks import EventClock, SynchronisedClock
from scalewise.watch.wrappers import kind_of

_LIBRARIES = (
    "libgomp",
    "libiomp5",
    "libmkl_core",
    "libopenblas",
    "libcuda.",
    "libcudart",
    "libnccl",
    "libjemalloc",
)
MOST_SUMMED = 1000  # parameters, and values of each, that are read at the end


class PeakReader(Protocol):
    """A reader of the peaks of a GPU's memory, stretch by stretch."""

    def end_stretch(self, device: int) -> int:
        """The most bytes that were allocated on a device since the last call."""


class TorchProbe:
    """A probe that counts optimizers, reads memory, and describes the model once all its optimizers have stepped."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._indices: dict[int, int] = {}
        self._optimizers: list[torch.optim.Optimizer] = []
        self._described = 0
        self._heap_at_backward: int | None = None
        self._level_ns = 0
        self._to_read: list[Reducer] = []
        self.wrapper = ""
        self.gpu_peaks: PeakReader | None = None  # None: there is no GPU, or its peaks are not cut into stretches

    def index_of(self, optimizer: torch.optim.Optimizer) -> int:
        """The optimizer's number in order of first use."""
        index = self._indices.get(id(optimizer))
        if index is None:
            index = self._indices[id(optimizer)] = len(self._optimizers)
            self._optimizers.append(optimizer)
            self._recorder.attention = True
        return index

    def choose_clock(self, module: nn.Module) -> None:
        """Chooses the clock by where the parameters of the first module called lie."""
        devices = {parameter.device for parameter in module.parameters() if parameter.is_cuda}
        if len(devices) == 1:
            self._recorder.use_clock(EventClock(self._recorder.note))
        elif devices:
            self._recorder.use_clock(SynchronisedClock(sorted(devices, key=str)))
        kind = kind_of(module)
        if kind is not None and kind.exchange != "reducer":  # DDP tells when it is made
            self.wrapper = kind.name

    def read_later(self, reducer: Reducer) -> None:
        """Reads the reducer between two steps, outside the timed region."""
        self._to_read.append(reducer)
        self._recorder.attention = True

    def look(self, step: int) -> None:
        """Describes new optimizers and reads the reducers that asked for it, between two steps."""
        if self._described < len(self._optimizers):
            self._described = len(self._optimizers)
            self._recorder.journal.row(self._model(step))
        for reducer in self._to_read:
            exposed = reducer.read_exposed()
            if exposed is not None:
                self._recorder.journal.row(ExposedRow(step, exposed[0], exposed[1], BY_REDUCER_TIMER))
        self._to_read.clear()

    def note_level_if_due(self, step: int) -> None:
        """Reads the memory in use, at most twice a second."""
        now_ns = time.monotonic_ns()
        if now_ns - self._level_ns < LEVEL_NS:
            return
        self._level_ns = now_ns
        allocated, reserved = _over_gpus(torch.cuda.memory_allocated), _over_gpus(torch.cuda.memory_reserved)
        self._recorder.journal.row(LevelRow(step, _rss_bytes(), heap_bytes(), allocated, reserved))

    def at_backward(self) -> None:
        """Reads the heap when backward begins, while the activations are alive."""
        self._heap_at_backward = heap_bytes()

    def after_step(self, step: int) -> None:
        """Writes the memory in use right after the step."""
        self._recorder.journal.row(self._memory(step))

    def at_end(self, step: int) -> None:
        """Writes the last figures: peaks of memory, and sums of the parameters if there are several ranks."""
        if self._described < len(self._optimizers):
            self.look(step)
        self._heap_at_backward = None
        self._recorder.journal.row(self._memory(max(0, step - 1)))
        if world_size() > 1 and self._recorder.exception is None:  # after a failure a GPU may never be ready
            row = _parameters_row(self._parameters())
            if row is not None:
                self._recorder.journal.row(row)

    def _parameters(self) -> list[torch.Tensor]:
        groups = (group for optimizer in self._optimizers for group in optimizer.param_groups)
        return list({id(one): one for group in groups for one in group["params"]}.values())

    def _model(self, step: int) -> ModelRow:
        parameters = self._parameters()
        layout = layout_of(parameters)
        shapes = ";".join(f"{tuple(one.shape)}{one.dtype}" for one in parameters)
        return ModelRow(
            step=step,
            parameters=sum(one.numel() for one in parameters),
            parameter_bytes=_local_bytes(parameters),
            dtypes=tuple(sorted({str(one.dtype).removeprefix("torch.") for one in parameters})),
            devices=tuple(sorted({str(one.device) for one in parameters})),
            shapes_digest=hashlib.blake2b(shapes.encode(), digest_size=8).hexdigest(),
            optimizers=tuple(type(optimizer).__name__ for optimizer in self._optimizers),
            wrapper=self.wrapper or ("FSDP" if layout.averaged_over else ""),
            clock=self._recorder.clock.name if self._recorder.clock is not None else "host",
            averaged_over=layout.averaged_over,
            split_over=layout.split_over,
            placements=layout.placements,
        )

    def _memory(self, step: int) -> MemoryRow:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        parameters = self._parameters()
        gradients = (one.grad for one in parameters if one.grad is not None)
        states = (state for optimizer in self._optimizers for state in optimizer.state.values())
        return MemoryRow(
            step=step,
            peak_rss_bytes=usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
            minor_faults=usage.ru_minflt,
            parameter_bytes=_local_bytes(parameters),
            gradient_bytes=_local_bytes(gradients),
            optimizer_bytes=_local_bytes(_tensors_in(states)),
            heap_at_backward_bytes=self._heap_at_backward,
            heap_after_step_bytes=heap_bytes(),
            cuda_peak_allocated_bytes=_over_gpus(torch.cuda.max_memory_allocated),
            cuda_peak_reserved_bytes=_over_gpus(torch.cuda.max_memory_reserved),
            cuda_stretch_peak_bytes=_over_gpus(self.gpu_peaks.end_stretch) if self.gpu_peaks is not None else None,
        )


def describe_rank(recorder: Recorder, local_rank: int) -> StartRow:
    """The row on the rank as it is when its first step opens."""
    return StartRow(
        rank=recorder.rank,
        local_rank=local_rank,
        world_size=world_size(),
        pid=os.getpid(),
        host=socket.gethostname(),
        python=platform.python_version(),
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        affinity=tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else (),
        started_unix_seconds=time.time(),
        changes=tuple(item.label() for item in recorder.changes),
        rss_bytes=_rss_bytes(),
        libraries=_loaded_libraries(),
        isa=f"{torch.backends.cpu.get_cpu_capability()}",
    )


def world_size() -> int:
    """The number of ranks: as the process group has it, else as torchrun gave it."""
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    return int(os.environ.get("WORLD_SIZE", "1"))


def _parameters_row(parameters: Sequence[torch.Tensor]) -> ParametersRow | None:
    """Sums the first values of each parameter; the script has ended, so nobody waits for reads from a device."""
    total = squares = 0.0
    read = 0
    with torch.no_grad():
        for one in parameters[:MOST_SUMMED]:
            local: torch.Tensor = getattr(one, "_local_tensor", one)
            plain = type(local) in (torch.Tensor, nn.Parameter) and local.layout is torch.strided and not local.is_meta
            if plain and local.is_floating_point() and local.numel():
                values = local.reshape(-1)[:MOST_SUMMED].double()
                total += float(values.sum())
                squares += float(values.square().sum())
                read += 1
    return ParametersRow(read, total, squares**0.5) if read else None


def _local_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """The bytes held by this rank: for a sharded tensor its shard only, which is read without communicating."""
    local = (getattr(tensor, "_local_tensor", tensor) for tensor in tensors)
    return sum(tensor.numel() * tensor.element_size() for tensor in local)


def _tensors_in(states: Iterable[Any]) -> list[torch.Tensor]:
    values = (value for state in states if isinstance(state, dict) for value in state.values())
    return [value for value in values if isinstance(value, torch.Tensor)]


def _over_gpus(read: Callable[[int], int]) -> int | None:
    """The sum of a figure of torch's allocator over the GPUs; None if the process has not used any."""
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return sum(map(read, range(torch.cuda.device_count())))


def _rss_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def _loaded_libraries() -> dict[str, str]:
    """The native libraries that decide speed, as the kernel has mapped them."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = {line.split(maxsplit=5)[5].strip() for line in file if ".so" in line}
    except OSError:
        return {}
    return {
        name.rstrip("."): os.path.basename(path)
        for path in sorted(paths)
        for name in _LIBRARIES
        if os.path.basename(path).startswith(name)
    }


class _Mallinfo2(ctypes.Structure):
    """The C structure as in malloc.h; only the fields read here have proper names."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in ("arena", "b", "c", "d", "hblkhd", "f", "g", "uordblks", "fordblks", "keepcost")
    )


def _mallinfo2() -> Any:
    function = getattr(ctypes.CDLL(None), "mallinfo2", None)  # glibc 2.33 and later
    if function is not None:
        function.restype = _Mallinfo2
    return function


_read_heap = _mallinfo2()


def heap_bytes() -> int | None:
    """The bytes in use on the C heap, where CPU tensors lie; None if the C library cannot tell."""
    if _read_heap is None:
        return None
    info = _read_heap()
    return int(info.uordblks + info.hblkhd)
