"""Wrappers and layers that insist on a GPU: DDP and FSDP without device numbers, batch statistics of one rank only."""

import functools
from typing import Any

import torch
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm
from torch.nn.parallel import data_parallel

from scalewise.watch.redirect.account import Account


def install(account: Account) -> None:
    """Classes are changed in place, so that whoever has imported them is served as well."""
    if torch.distributed.is_available():
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.nn.parallel import DistributedDataParallel

        _without_devices(account, DistributedDataParallel, ("device_ids", "output_device"), first=1)
        _without_devices(account, FullyShardedDataParallel, ("device_id",), first=None)
    _redirect_data_parallel(account)
    _redirect_batch_norm(account)


def _without_devices(account: Account, kind: Any, options: tuple[str, ...], first: int | None) -> None:
    """`first`: the place of the first of them behind `self`, where they may be given without their names."""
    original = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if first is not None and len(args) > first:
            args = (*args[:first], *(None for _ in args[first : first + len(options)]), *args[first + len(options) :])
            account.redirect(f"{kind.__name__}({options[0]})")
        for name in options:
            if kwargs.pop(name, None) is not None:
                account.redirect(f"{kind.__name__}({name})")
        original(self, *args, **kwargs)

    kind.__init__ = __init__


def _redirect_data_parallel(account: Account) -> None:
    """Without a device it calls its module, which is what it does on a machine without GPUs."""

    def nothing_there() -> None:
        account.ask("cuda")
        account.redirect("torch.nn.DataParallel")
        account.miss("torch.nn.DataParallel")

    if hasattr(data_parallel, "_get_available_device_type"):
        data_parallel._get_available_device_type = nothing_there


def _redirect_batch_norm(account: Account) -> None:
    """Its exchange of statistics is written for GPUs alone."""

    def forward(self: SyncBatchNorm, input: torch.Tensor) -> torch.Tensor:
        account.miss("torch.nn.SyncBatchNorm")
        return _BatchNorm.forward(self, input)

    SyncBatchNorm.forward = forward  # type: ignore[method-assign]
