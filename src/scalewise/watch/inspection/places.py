"""Where tensors lie and what modules are called: real devices, logical ones, layers and their replicas."""

import sys
import threading
from collections.abc import Iterable
from types import FrameType

import torch
from torch import nn

from scalewise.records.inspection import LOGICAL_PREFIX
from scalewise.watch import redirect
from scalewise.watch.examination.places import is_users_file

MAIN_THREAD = threading.main_thread().ident


def in_main_thread() -> bool:
    """Only there are rows written."""
    return threading.get_ident() == MAIN_THREAD


def logical_device_of(tensor: torch.Tensor) -> str | None:
    """The stand-in that the script has put the tensor on."""
    place = redirect.stand_in_of(tensor)
    return None if place is None else f"{LOGICAL_PREFIX}{place}"


def device_of(tensor: torch.Tensor) -> str:
    """Logical where a device is stood in for, else real."""
    return logical_device_of(tensor) or str(tensor.device)


def own_parameters(module: nn.Module) -> list[torch.Tensor]:
    """The module's own, not its children's; a replica of nn.DataParallel keeps its copies under another name."""
    held = module._parameters or getattr(module, "_former_parameters", {})
    return [one for one in held.values() if isinstance(one, torch.Tensor)]


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Each storage once; of a sharded tensor this rank's shard."""
    sizes = {}
    for tensor in tensors:
        storage = getattr(tensor, "_local_tensor", tensor).untyped_storage()
        sizes[storage._cdata] = storage.nbytes()
    return sum(sizes.values())


def asking_line() -> tuple[str, int]:
    """The script's line that asked for what torch is doing now: of a module's forward, else the nearest of its own."""
    frame: FrameType | None = sys._getframe(1)
    nearest: tuple[str, int] = ("", 0)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users_file(file):
            here = (file, frame.f_lineno)
            if frame.f_code.co_name == "forward" and isinstance(frame.f_locals.get("self"), nn.Module):
                return here
            nearest = nearest if nearest[0] else here
        frame = frame.f_back
    return nearest


def gpus_of(tensors: Iterable[torch.Tensor]) -> tuple[torch.device, ...]:
    """The real GPUs that the tensors lie on."""
    return tuple({tensor.device for tensor in tensors if tensor.is_cuda})


def synchronize(gpus: tuple[torch.device, ...]) -> None:
    """Waits for the GPUs; not while a CUDA graph is being captured, which would not survive it."""
    if gpus and not torch.cuda.is_current_stream_capturing():
        for gpu in gpus:
            torch.cuda.synchronize(gpu)
