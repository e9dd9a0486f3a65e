"""Changes wrappers and layers that insist on a GPU: DDP and FSDP without device numbers, one rank's statistics.

nn.DataParallel runs over stand-in devices: torch's own class, with its copies between devices done as moves.
"""

import functools
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm

from scalewise.watch.call_arguments import Argument
from scalewise.watch.redirect.redirected_calls import RedirectedCalls
from scalewise.watch.redirect.virtual_device import VirtualTensors
from scalewise.watch.seams import seam, seams

_PARALLEL = "torch.nn.parallel"


def install(calls: RedirectedCalls, virtual: VirtualTensors, count: int) -> None:
    """Changes classes in place, so that code that has imported them uses the changed ones as well."""
    _redirect_module()
    _redirect_data_parallel(calls, virtual, count)
    if virtual.real != "cpu":
        return
    if torch.distributed.is_available():
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.nn.parallel import DistributedDataParallel

        _without_devices(calls, DistributedDataParallel, ("device_ids", "output_device"))
        _on_cpu(calls, FullyShardedDataParallel)
        _without_demands(calls, DistributedDataParallel)
    _redirect_batch_norm(calls)


def _redirect_module() -> None:
    """Names the GPU in `model.to(1)`: without a GPU, torch refuses a bare number before any tensor is asked."""

    def to(call: Any, self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = (_named(args[0]), *args[1:])
        if "device" in kwargs:
            kwargs["device"] = _named(kwargs["device"])
        return call(self, *args, **kwargs)

    seam(torch.nn.Module, "to").around(to)


def _named(device: Any) -> Any:
    return f"cuda:{device}" if isinstance(device, int) and not isinstance(device, bool) else device


def _without_devices(calls: RedirectedCalls, kind: Any, options: tuple[str, ...]) -> None:
    """Drops the options, which come right after the module if they are given by position."""

    def __init__(call: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > 1:
            last = 1 + len(options)
            args = (args[0], *(None for _ in args[1:last]), *args[last:])
            calls.redirect(f"{kind.__name__}({options[0]})")
        for name in options:
            if kwargs.pop(name, None) is not None:
                calls.redirect(f"{kind.__name__}({name})")
        call(self, *args, **kwargs)

    seam(kind, "__init__").around(__init__)


def _on_cpu(calls: RedirectedCalls, kind: Any) -> None:
    """Gives a wrapper the CPU as its device; without one it would look for an accelerator."""
    device_id = Argument(kind.__init__, "device_id")

    def __init__(call: Any, /, *args: Any, **kwargs: Any) -> None:
        calls.redirect(f"{kind.__name__}(device_id)")
        args, kwargs = device_id.replaced(torch.device("cpu"), args, kwargs)
        call(*args, **kwargs)

    seam(kind, "__init__").around(__init__)


def _without_demands(calls: RedirectedCalls, kind: Any) -> None:
    """Drops DDP's refusal of SyncBatchNorm on a CPU, and of bfloat16 gradients without NCCL: both can be done here."""

    def accepts(self: Any, module: Any) -> None:
        calls.redirect("DistributedDataParallel(SyncBatchNorm)")

    def check(call: Any, self: Any, hook: Any) -> None:
        if getattr(hook, "__name__", "").startswith("bf16_compress"):
            calls.redirect("DistributedDataParallel.register_comm_hook")
            return
        call(self, hook)

    private = seams(kind, ("_passing_sync_batchnorm_handle", "_check_comm_hook"))
    if "_passing_sync_batchnorm_handle" in private:
        private["_passing_sync_batchnorm_handle"].replace(accepts)
    if "_check_comm_hook" in private:
        private["_check_comm_hook"].around(check)


def _redirect_batch_norm(calls: RedirectedCalls) -> None:
    """Uses statistics of one rank, as the exchange of statistics is written for GPUs alone."""

    def forward(self: SyncBatchNorm, input: torch.Tensor) -> torch.Tensor:
        calls.miss("torch.nn.SyncBatchNorm")
        return _BatchNorm.forward(self, input)

    seam(SyncBatchNorm, "forward").replace(forward)


# ---- nn.DataParallel


def _redirect_data_parallel(calls: RedirectedCalls, virtual: VirtualTensors, count: int) -> None:
    """Replaces the parts of torch.nn.parallel that are written for GPUs alone."""
    module = sys.modules[f"{_PARALLEL}.data_parallel"]  # its name as an attribute is a function
    apart = virtual.held is not None

    def available() -> str | None:
        calls.ask("cuda")
        calls.redirect("torch.nn.DataParallel")
        if not apart:  # without a device it calls its module, which is what it does on a machine without GPUs
            calls.miss("torch.nn.DataParallel")
        return "cuda" if apart else None

    _put(module, "_get_available_device_type", available)
    _put(module, "_get_all_device_indices", lambda: list(range(count)))
    _put(module, "_check_balance", lambda device_ids: None)  # stand-ins are all alike
    _put(module, "parallel_apply", Threads(virtual).apply)
    _put(sys.modules[f"{_PARALLEL}.replicate"], "_broadcast_coalesced_reshape", _broadcast)
    _put(sys.modules[f"{_PARALLEL}.scatter_gather"], "Scatter", _applied(_scatter))
    _put(sys.modules[f"{_PARALLEL}.scatter_gather"], "Gather", _applied(_gather))


def _put(module: Any, name: str, new: Any) -> None:
    if hasattr(module, name):
        vars(module)[name] = new


def _broadcast(tensors: Sequence[torch.Tensor], devices: Sequence[int], detach: bool = False) -> Any:
    """Copies every weight to every device; backward copies the gradients back, where autograd adds them up."""
    with torch.set_grad_enabled(torch.is_grad_enabled() and not detach):
        return [[one.to(f"cuda:{device}").view_as(one) for one in tensors] for device in devices]


def _scatter(target_gpus: Sequence[int], chunk_sizes: Any, dim: int, x: torch.Tensor) -> Any:
    """Splits the batch into a part for each device."""
    parts = x.chunk(len(target_gpus), dim) if chunk_sizes is None else x.split(chunk_sizes, dim)
    return tuple(part.to(f"cuda:{device}") for part, device in zip(parts, target_gpus, strict=False))


def _gather(target_device: Any, dim: int, *outputs: torch.Tensor) -> torch.Tensor:
    """Joins all outputs on one device; numbers become a list of them, as in torch."""
    home = "cpu" if str(target_device) in ("cpu", "-1") else f"cuda:{getattr(target_device, 'index', target_device)}"
    if all(output.dim() == 0 for output in outputs):
        outputs, dim = tuple(output.view(1) for output in outputs), 0
    return torch.cat([output.to(home) for output in outputs], dim)


def _applied(function: Any) -> Any:
    """A function in place of a function of autograd, whose `apply` is called."""
    function.apply = function
    return function


class Threads:
    """The threads for each device, with an equal share of the cores; they are kept from step to step."""

    def __init__(self, virtual: VirtualTensors) -> None:
        self._virtual = virtual
        self._pool = functools.cache(ThreadPoolExecutor)

    def apply(self, modules: Sequence[Any], inputs: Any, kwargs_tup: Any = None, devices: Any = None) -> list[Any]:
        """Calls each replica with its part of the batch, all at once."""
        kind = torch.device(self._virtual.real).type
        share = max(1, torch.get_num_threads() // len(modules))
        grad, mixed, dtype = torch.is_grad_enabled(), torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)

        def work(place: int) -> Any:
            self._virtual.current = devices[place] if devices else place
            if torch.get_num_threads() != share and kind == "cpu":
                torch.set_num_threads(share)
            given = inputs[place] if isinstance(inputs[place], (list, tuple)) else (inputs[place],)
            with torch.set_grad_enabled(grad), torch.autocast(kind, dtype=dtype, enabled=mixed):
                return modules[place](*given, **(kwargs_tup[place] if kwargs_tup else {}))

        return list(self._pool(len(modules)).map(work, range(len(modules))))
