"""Notes collectives called through torch.distributed, by the script itself or by wrappers written in Python (FSDP)."""

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from scalewise.watch.call_arguments import Argument
from scalewise.watch.hooks.forward import first_tensor
from scalewise.watch.imports import after_import
from scalewise.watch.recorder import Recorder

# The functions of torch.distributed, by the kind they are counted as. Names differ between versions of torch.
KINDS = {
    "all_reduce": ("all_reduce", "all_reduce_coalesced"),
    "broadcast": ("broadcast", "broadcast_object_list"),
    "reduce": ("reduce",),
    "all_gather": (
        "all_gather",
        "all_gather_into_tensor",
        "all_gather_single",
        "all_gather_coalesced",
        "all_gather_object",
    ),
    "reduce_scatter": ("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single"),
    "all_to_all": ("all_to_all", "all_to_all_single"),
    "gather": ("gather", "gather_object"),
    "scatter": ("scatter", "scatter_object_list"),
    "barrier": ("barrier", "monitored_barrier"),
    "send": ("send", "isend", "send_object_list"),
    "recv": ("recv", "irecv", "recv_object_list"),
    "batch_isend_irecv": ("batch_isend_irecv",),
}
# Functions of torch.distributed._functional_collectives, which DTensor calls; the module is loaded on first use.
FUNCTIONAL = "torch.distributed._functional_collectives"
FUNCTIONAL_KINDS = {
    "all_reduce": ("all_reduce", "all_reduce_coalesced"),
    "broadcast": ("broadcast",),
    "all_gather": (
        "all_gather_single",
        "all_gather_single_autograd",
        "all_gather_single_coalesced",
        "all_gather_tensor",
        "all_gather_tensor_autograd",
        "all_gather_into_tensor_coalesced",
    ),
    "reduce_scatter": (
        "reduce_scatter_single",
        "reduce_scatter_single_autograd",
        "reduce_scatter_single_coalesced",
        "reduce_scatter_tensor",
        "reduce_scatter_tensor_autograd",
        "reduce_scatter_tensor_coalesced",
    ),
    "all_to_all": ("all_to_all_single", "all_to_all_single_autograd"),
}
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}


class _Depth:
    """The mark of a collective under way.

    Collectives call one another (an object broadcast is a broadcast); only the outermost one counts.
    """

    inside = False


def install(recorder: Recorder) -> None:
    """Replaces each function by one that stamps its begin and end."""
    depth = _Depth()
    replaced: dict[Any, Any] = {}
    for name, kind in KIND_OF.items():
        original = getattr(dist, name, None)
        if original is not None:
            replaced[original] = _watched(recorder, kind, original, depth)
    put(replaced)
    after_import(FUNCTIONAL, functools.partial(_watch_functional, recorder, depth))


def put(replaced: dict[Any, Any]) -> None:
    """Puts new functions in place of old ones, wherever the modules of torch.distributed have bound those."""
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed") and module is not None:
            _replace(vars(module), replaced)
    functional = sys.modules.get("torch.distributed._functional_collectives")
    remaps = getattr(functional, "traceable_collective_remaps", {})
    remaps.update({new: remaps[old] for old, new in replaced.items() if old in remaps})


def _replace(namespace: dict[str, Any], replaced: dict[Any, Any]) -> None:
    for name in KIND_OF:
        new = replaced.get(namespace.get(name))
        if new is not None:
            namespace[name] = new


def _watched(recorder: Recorder, kind: str, original: Callable[..., Any], depth: _Depth) -> Callable[..., Any]:
    operations = Argument(original, "p2p_op_list")

    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        if depth.inside or not recorder.on:
            return original(*args, **kwargs)
        size_bytes = message_bytes(recorder, args, kwargs)
        depth.inside = True
        _quietly(recorder, recorder.collective_begin)
        try:
            return original(*args, **kwargs)
        finally:
            depth.inside = False
            receives = kind == "batch_isend_irecv" and _only_receives(operations.of(args, kwargs))
            _quietly(recorder, functools.partial(recorder.collective_end, "recv" if receives else kind, size_bytes))

    return watched


def _only_receives(operations: Any) -> bool:
    """Returns whether a batch of messages only receives: a later stage of a pipeline waits so for its first piece."""
    names = [getattr(getattr(one, "op", None), "__name__", "") for one in operations or ()]
    return bool(names) and set(names) == {"irecv"}


def _watch_functional(recorder: Recorder, depth: _Depth) -> None:
    module = vars(sys.modules[FUNCTIONAL])
    for kind, names in FUNCTIONAL_KINDS.items():
        for name in names:
            if name in module:
                module[name] = _watched_eagerly(recorder, kind, module[name], depth)


def _watched_eagerly(recorder: Recorder, kind: str, original: Callable[..., Any], depth: _Depth) -> Callable[..., Any]:
    """A function watched except while torch.compile traces: a stamp would break its graph, and be made only once."""
    seen = _watched(recorder, kind, original, depth)

    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or torch._guards.TracingContext.try_get() is not None:
            return original(*args, **kwargs)
        return seen(*args, **kwargs)

    return watched


def _quietly(recorder: Recorder, note: Callable[[], None]) -> None:
    try:
        note()
    except Exception as error:
        recorder.broke("collective", error)


def message_bytes(recorder: Recorder, args: Any, kwargs: Any) -> int:
    """Bytes of the first tensor among the arguments."""
    try:
        tensor = first_tensor((args, kwargs), depth=4)
        return 0 if tensor is None else tensor.numel() * tensor.element_size()
    except Exception as error:
        recorder.broke("collective", error)
        return 0
