"""Changes wrappers and layers that insist on a GPU: DDP and FSDP without device numbers, one rank's statistics."""

import functools
from typing import Any

import torch
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm

from scalewise.watch.call_arguments import Argument
from scalewise.watch.redirect.redirected_calls import RedirectedCalls
from scalewise.watch.redirect.virtual_device import VirtualTensors


def install(calls: RedirectedCalls, virtual: VirtualTensors) -> None:
    """Changes classes in place, so that code that has imported them uses the changed ones as well."""
    _redirect_module()
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
    original = torch.nn.Module.to

    @functools.wraps(original)
    def to(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = (_named(args[0]), *args[1:])
        if "device" in kwargs:
            kwargs["device"] = _named(kwargs["device"])
        return original(self, *args, **kwargs)

    torch.nn.Module.to = to  # type: ignore[method-assign]


def _named(device: Any) -> Any:
    return f"cuda:{device}" if isinstance(device, int) and not isinstance(device, bool) else device


def _without_devices(calls: RedirectedCalls, kind: Any, options: tuple[str, ...]) -> None:
    """Drops the options, which come right after the module if they are given by position."""
    original = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) > 1:
            last = 1 + len(options)
            args = (args[0], *(None for _ in args[1:last]), *args[last:])
            calls.redirect(f"{kind.__name__}({options[0]})")
        for name in options:
            if kwargs.pop(name, None) is not None:
                calls.redirect(f"{kind.__name__}({name})")
        original(self, *args, **kwargs)

    kind.__init__ = __init__


def _on_cpu(calls: RedirectedCalls, kind: Any) -> None:
    """Gives a wrapper the CPU as its device; without one it would look for an accelerator."""
    original = kind.__init__
    device_id = Argument(original, "device_id")

    @functools.wraps(original)
    def __init__(*args: Any, **kwargs: Any) -> None:
        calls.redirect(f"{kind.__name__}(device_id)")
        args, kwargs = device_id.replaced(torch.device("cpu"), args, kwargs)
        original(*args, **kwargs)

    kind.__init__ = __init__


def _without_demands(calls: RedirectedCalls, kind: Any) -> None:
    """Drops DDP's refusal of SyncBatchNorm on a CPU, and of bfloat16 gradients without NCCL: both can be done here."""

    def accepts(self: Any, module: Any) -> None:
        calls.redirect("DistributedDataParallel(SyncBatchNorm)")

    if hasattr(kind, "_passing_sync_batchnorm_handle"):
        kind._passing_sync_batchnorm_handle = accepts
    original = getattr(kind, "_check_comm_hook", None)
    if original is None:
        return

    @functools.wraps(original)
    def _check_comm_hook(self: Any, hook: Any) -> None:
        if getattr(hook, "__name__", "").startswith("bf16_compress"):
            calls.redirect("DistributedDataParallel.register_comm_hook")
            return
        original(self, hook)

    kind._check_comm_hook = _check_comm_hook


def _redirect_batch_norm(calls: RedirectedCalls) -> None:
    """Uses statistics of one rank, as the exchange of statistics is written for GPUs alone."""

    def forward(self: SyncBatchNorm, input: torch.Tensor) -> torch.Tensor:
        calls.miss("torch.nn.SyncBatchNorm")
        return _BatchNorm.forward(self, input)

    SyncBatchNorm.forward = forward  # type: ignore[method-assign]
