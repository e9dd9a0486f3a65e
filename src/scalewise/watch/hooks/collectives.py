"""Sees collectives called through torch.distributed, by the script itself or by wrappers written in Python (FSDP)."""

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from scalewise.watch.hooks.forward import first_tensor
from scalewise.watch.recorder import Recorder

COLLECTIVES = (
    "all_reduce",
    "all_reduce_coalesced",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all",
    "all_to_all_single",
    "gather",
    "scatter",
    "barrier",
    "send",
    "recv",
    "isend",
    "irecv",
    "batch_isend_irecv",
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "scatter_object_list",
)
# Below this an all-reduce carries a decision or a statistic, not gradients: removing it could change the script's path.
SMALLEST_REMOVED_BYTES = 1024


def install(recorder: Recorder) -> None:
    """Replaces each function wherever torch.distributed's own modules have already bound it."""
    removes = any(item.kind == "remove_communication" for item in recorder.interventions)
    depth = _Depth()
    replaced: dict[Any, Any] = {}
    for name in COLLECTIVES:
        original = getattr(dist, name, None)
        if original is not None:
            removed = removes and name == "all_reduce"
            replaced[original] = _watched(recorder, name, original, depth, removed)
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed") and module is not None:
            _replace(vars(module), replaced)
    functional = sys.modules.get("torch.distributed._functional_collectives")
    remaps = getattr(functional, "traceable_collective_remaps", {})
    remaps.update({new: remaps[old] for old, new in replaced.items() if old in remaps})


class _Depth:
    """Collectives call one another (an object broadcast is a broadcast): only the outermost is one."""

    inside = False


def _replace(namespace: dict[str, Any], replaced: dict[Any, Any]) -> None:
    for name in COLLECTIVES:
        new = replaced.get(namespace.get(name))
        if new is not None:
            namespace[name] = new


def _watched(
    recorder: Recorder, name: str, original: Callable[..., Any], depth: _Depth, removed: bool
) -> Callable[..., Any]:
    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        if depth.inside or not recorder.on:
            return original(*args, **kwargs)
        tensor = first_tensor((args, kwargs), depth=4)
        size_bytes = 0 if tensor is None else tensor.numel() * tensor.element_size()
        if removed and recorder.open and size_bytes >= SMALLEST_REMOVED_BYTES:
            recorder.intervene("remove_communication")
            return _DoneWork() if kwargs.get("async_op") or args[3:4] == (True,) else None
        depth.inside = True
        recorder.collective_begin()
        try:
            return original(*args, **kwargs)
        finally:
            depth.inside = False
            recorder.collective_end(name, size_bytes)

    return watched


class _DoneWork:
    """Stands for a collective that was taken out: done before it began."""

    def wait(self, timeout: Any = None) -> bool:
        """At once."""
        return True

    def is_completed(self) -> bool:
        """Always."""
        return True

    def get_future(self) -> Any:
        """A future that is there already."""
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(None)
        return future
