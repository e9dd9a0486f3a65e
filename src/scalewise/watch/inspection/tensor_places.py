"""Finds where tensors lie and which modules hold them: real devices, logical ones, layers and their replicas."""

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
    """Returns whether this is the main thread, the only one that writes rows."""
    return threading.get_ident() == MAIN_THREAD


def logical_device_of(tensor: torch.Tensor) -> str | None:
    """The logical device (a stand-in) that the script has put the tensor on; None if there is none."""
    place = redirect.stand_in_of(tensor)
    return None if place is None else f"{LOGICAL_PREFIX}{place}"


def device_of(tensor: torch.Tensor) -> str:
    """The logical device if one stands in, else the real one."""
    return logical_device_of(tensor) or str(tensor.device)


def own_parameters(module: nn.Module) -> list[torch.Tensor]:
    """The module's own parameters, not its children's; a replica of nn.DataParallel keeps copies under another name."""
    held = module._parameters or getattr(module, "_former_parameters", {})
    return [one for one in held.values() if isinstance(one, torch.Tensor)]


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a sharded tensor that is on this rank; any other tensor as it is."""
    return getattr(tensor, "_local_tensor", tensor)


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """The bytes of all storages, each counted once; for a sharded tensor those of this rank's shard."""
    sizes = {}
    for tensor in tensors:
        storage = local_part(tensor).untyped_storage()
        sizes[storage._cdata] = storage.nbytes()
    return sum(sizes.values())


def asking_line() -> tuple[str, int]:
    """The script's line that asked for what torch is doing now: in a module's forward, else the innermost."""
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
    """Waits for the GPUs; not while a CUDA graph is being captured, which would fail by it."""
    if gpus and not torch.cuda.is_current_stream_capturing():
        for gpu in gpus:
            torch.cuda.synchronize(gpu)
