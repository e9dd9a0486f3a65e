"""Lets a script written for GPUs run on CPU ranks: its calls for devices are redirected, one file per concern.

What it computes is what it would compute on the CPU. What only a GPU has (times of kernels, its memory, overlap, NCCL)
cannot be seen that way; calls whose answer would need it are listed by name.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scalewise.records.examination import DeviceUseRow

if TYPE_CHECKING:
    from scalewise.watch.redirect.account import Account
    from scalewise.watch.redirect.belief import Belief

_installed: "tuple[Account, Belief] | None" = None


def install() -> None:
    """Before any other hook, so that theirs are put on what the script will really call."""
    global _installed
    import torch

    from scalewise.watch.redirect import compiling, devices, memory, precision, storing, streams, tensors, wrappers
    from scalewise.watch.redirect.account import Account
    from scalewise.watch.redirect.belief import Belief

    account, belief = Account(), Belief()
    devices.install(account, belief)
    memory.install(account)
    streams.install(account)
    precision.install(account)
    storing.install(account, belief)
    compiling.install(account)
    wrappers.install(account)
    if torch.distributed.is_available():
        from scalewise.watch.redirect import groups

        groups.install(account)
    tensors.install(account, belief)
    _installed = account, belief


def tell(told: Callable[[DeviceUseRow], None]) -> None:
    """Gives a row of what was asked, now and whenever it changes; never where nothing is redirected."""
    if _installed is not None:
        _installed[0].told_to(told)


def is_on() -> bool:
    """Whether this process stands in for one with GPUs."""
    return _installed is not None


def believed_on_gpu(tensor: Any) -> bool:
    """Whether the script takes this tensor for one on a GPU; False where nothing is redirected."""
    return believed_gpu(tensor) is not None


def believed_gpu(tensor: Any) -> int | None:
    """The index of the GPU that the script takes this tensor to be on; None: the host, or nothing is redirected."""
    return None if _installed is None else _installed[1].place(tensor)
