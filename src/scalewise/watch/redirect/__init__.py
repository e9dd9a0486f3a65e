"""Stands in for missing GPUs: a script's calls for devices are redirected, one file per concern.

With the doctor's `--on cpu`, the CPU stands in for the GPUs of every rank. What a script computes is what it would
compute there. What only a GPU has (times of kernels, its memory, overlap, NCCL) cannot be seen that way; calls whose
answer would need it are listed by name.

A run with more `devices` than GPUs has several stand-ins that are told apart: on the CPU, or on one GPU. What moves
between them is copied, forward and backward, and memory is counted for each.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scalewise.records.examination import DeviceUseRow

if TYPE_CHECKING:
    from scalewise.watch.redirect.redirected_calls import RedirectedCalls
    from scalewise.watch.redirect.virtual_device import VirtualTensors

_installed: "tuple[RedirectedCalls, VirtualTensors] | None" = None


def install(devices: int = 0, seen: int = 0) -> None:
    """Installs the redirection before any other hook, so that hooks are put on what the script will really call.

    `devices` is the number of stand-ins that are told apart; 0: as many GPUs as ranks (or as many as are to be `seen`),
    and moves between them do not matter.
    """
    global _installed
    import torch

    from scalewise.watch.redirect import devices as questions
    from scalewise.watch.redirect import precision, streams, tensors, wrappers
    from scalewise.watch.redirect.redirected_calls import RedirectedCalls
    from scalewise.watch.redirect.virtual_device import Held, VirtualTensors

    real = "cuda:0" if devices and torch.cuda.is_available() else "cpu"
    calls, virtual = RedirectedCalls(), VirtualTensors(real, Held() if devices else None)
    count = devices or seen or questions.gpu_count()
    questions.install(calls, virtual, count)
    wrappers.install(calls, virtual, count)
    precision.install(calls, on_cpu=real == "cpu")
    if real == "cpu":
        streams.install(calls)
    if real == "cpu" and torch.distributed.is_available():
        from scalewise.watch.redirect import groups

        groups.install(calls)
    tensors.install(calls, virtual)
    _installed = calls, virtual


def tell(told: Callable[[DeviceUseRow], None]) -> None:
    """Gives a row on what was asked, now and whenever it changes; nothing if nothing is redirected."""
    if _installed is not None:
        _installed[0].told_to(told)


def is_on() -> bool:
    """Returns whether this process stands in for one with GPUs."""
    return _installed is not None


def believed_on_gpu(tensor: Any) -> bool:
    """Returns whether the script takes this tensor for one on a GPU; False if nothing is redirected."""
    return believed_gpu(tensor) is not None


def believed_gpu(tensor: Any) -> int | None:
    """The index of the GPU that the script takes this tensor to be on; None: the host, or nothing is redirected."""
    return None if _installed is None else _installed[1].place(tensor)


def stand_in_of(tensor: Any) -> int | None:
    """The index of the stand-in that holds the tensor; None if stand-ins are not told apart."""
    return None if _installed is None or _installed[1].held is None else _installed[1].place(tensor)
