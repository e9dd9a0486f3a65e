"""Bytes of the whole message that one call of torch.distributed sends, counted as a rehearsal puts them on tape.

For an all-gather or a gather it is what ranks hold in the end, for a reduce-scatter or a scatter what there was in the
beginning, for an all-to-all what this rank sends. So a message takes as long over an emulated link as predicted.
"""

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class _Whole:
    """The argument that holds the whole message, or this rank's piece of it."""

    at: int
    name: str
    is_piece: bool = False  # one of as many as there are ranks


_TENSOR = _Whole(0, "tensor")
_PIECE = _Whole(0, "tensor", is_piece=True)  # the list of all is at the root alone
_WHOLE = {
    "all_reduce": _TENSOR,
    "all_reduce_coalesced": _Whole(0, "tensors"),
    "broadcast": _TENSOR,
    "reduce": _TENSOR,
    "all_gather": _Whole(0, "tensor_list"),
    "all_gather_into_tensor": _Whole(0, "output_tensor"),
    "all_gather_single": _Whole(0, "output_tensor"),
    "all_gather_coalesced": _Whole(0, "output_tensor_lists"),
    "reduce_scatter": _Whole(1, "input_list"),
    "reduce_scatter_tensor": _Whole(1, "input"),
    "reduce_scatter_single": _Whole(1, "input"),
    "all_to_all": _Whole(1, "input_tensor_list"),
    "all_to_all_single": _Whole(1, "input"),
    "gather": _PIECE,
    "scatter": _PIECE,
    "send": _TENSOR,
    "isend": _TENSOR,
    "recv": _TENSOR,
    "irecv": _TENSOR,
}


def bytes_to_send(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], ranks: int) -> int:
    """The bytes that a call of that function sends among so many ranks; 0 if it sends nothing but a signal."""
    if name == "batch_isend_irecv":
        return _larger_way(args[0] if args else kwargs.get("p2p_op_list"))
    whole = _WHOLE.get(name)
    if whole is None:
        return 0
    value = args[whole.at] if len(args) > whole.at else kwargs.get(whole.name)
    return tensor_bytes(value) * (ranks if whole.is_piece else 1)


def tensor_bytes(value: Any) -> int:
    """The bytes of a tensor, or of all in (nested) lists; 0 for anything else, about which torch itself complains."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(map(tensor_bytes, value)) if isinstance(value, (list, tuple)) else 0


def _larger_way(operations: Any) -> int:
    """The bytes of the larger direction of a batch: a link carries both at once, so that the larger one decides."""
    sent = received = 0
    for one in operations if isinstance(operations, (list, tuple)) else ():
        size_bytes = tensor_bytes(getattr(one, "tensor", None))
        # By name: the function itself is wrapped, by us and by the watcher.
        if getattr(getattr(one, "op", None), "__name__", "") == "isend":
            sent += size_bytes
        else:
            received += size_bytes
    return max(sent, received)
