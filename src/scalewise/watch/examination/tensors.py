"""Reads tensors of the script without leaving a trace: on the host from memory, never the whole of a sharded one."""

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes

MOST_VALUES = 4096  # read of one tensor
_ROW_BYTES = 4096
_PLAIN = (torch.Tensor, nn.Parameter)
# Torch's own methods: what replaces them later is there to see the script's own reads.
_cpu, _item, _detach = torch.Tensor.cpu, torch.Tensor.item, torch.Tensor.detach
_wrapped = torch._C._functorch.is_functorch_wrapped_tensor

Values = np.ndarray[Any, np.dtype[np.float64]]


def ordinary(tensor: Any) -> bool:
    """Returns whether a value is a dense tensor of this process with memory of its own; a DTensor is not."""
    return type(tensor) in _PLAIN and tensor.layout is torch.strided and not _wrapped(tensor)


def local(tensor: Any) -> Any:
    """The part of a DTensor on this rank, read without asking the other ranks; any other tensor as it is."""
    return getattr(tensor, "_local_tensor", tensor)


def readable(tensor: Any, early: bool) -> bool:
    """Returns whether a tensor's values may be read now: on the host always, on a device only in the first windows."""
    if not ordinary(tensor) or tensor.device.type == "meta":
        return False
    return bool(tensor.device.type == "cpu" or early)


def values(tensor: torch.Tensor) -> Values:
    """The first values of a tensor, in double precision."""
    raw = _raw(tensor)
    if tensor.dtype is torch.bfloat16:  # numpy has no such type: it is the upper half of a float
        raw = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.asarray(raw, dtype=np.float64)


def number(tensor: torch.Tensor) -> float:
    """The only value of a tensor."""
    return float(_item(_detach(tensor)))


def any_value(tensor: torch.Tensor) -> bool:
    """Returns whether any value of a tensor is not zero."""
    raw = _raw(tensor)
    # In a zero of any type, all bits but the sign are zero.
    return bool((raw & 0x7FFF if tensor.dtype is torch.bfloat16 else raw).any())


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """A context for a few operations that neither autograd nor a mode of the script may see."""
    with torch.no_grad(), _disable_current_modes():
        yield


def digest(tensor: torch.Tensor) -> str:
    """A digest of a tensor's shape and a sample of values over the whole of it."""
    flat = _bytes_of(_spread(tensor))
    return _short(f"{tuple(tensor.shape)}{tensor.dtype}".encode() + flat)


def row_digests(tensor: torch.Tensor, most: int) -> list[str]:
    """The digests of a tensor's first rows, from the first bytes of each."""
    if tensor.dim() < 1:
        return []
    rows = tensor[:most].reshape(min(most, tensor.size(0)), -1)
    return [_short(_bytes_of(row)) for row in _host(rows[:, : _ROW_BYTES // tensor.element_size()])]


def _raw(tensor: torch.Tensor) -> Any:
    """The first values as numpy can hold them; read from memory, without an operation of torch's."""
    host = _host(tensor if tensor.device.type == "cpu" else tensor.reshape(-1)[:MOST_VALUES])
    return (host.view(torch.int16) if host.dtype is torch.bfloat16 else host).numpy().flat[:MOST_VALUES]


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.reshape(-1)
    stride = max(1, flat.numel() // MOST_VALUES)
    return flat[::stride]


def _host(tensor: torch.Tensor) -> torch.Tensor:
    tensor = _detach(tensor)
    return tensor if tensor.device.type == "cpu" else _cpu(tensor)


def _bytes_of(tensor: torch.Tensor) -> bytes:
    host = _host(tensor)
    return bytes(host.resolve_conj().resolve_neg().contiguous().view(torch.uint8).numpy().tobytes())


def _short(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
