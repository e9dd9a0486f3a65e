"""Notes collectives called through torch.distributed, by the script itself or by wrappers written in Python (FSDP)."""

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from scalewise.records.collectives import DISTRIBUTED, FUNCTIONAL, functions_in
from scalewise.watch import bindings
from scalewise.watch.call_arguments import Argument
from scalewise.watch.hooks.batch_rows import first_tensor
from scalewise.watch.imports import after_import
from scalewise.watch.recorder import Recorder


class _Depth:
    """The mark of a collective under way.

    Collectives call one another (an object broadcast is a broadcast); only the outermost one counts.
    """

    inside = False


def install(recorder: Recorder) -> None:
    """Replaces each function by one that stamps its begin and end."""
    depth = _Depth()
    replaced: dict[Any, Any] = {}
    for one in functions_in(DISTRIBUTED):
        original = getattr(dist, one.name, None)
        if original is not None:
            replaced[original] = _watched(recorder, one.kind, original, depth)
    bindings.put(replaced.items(), within="torch.distributed")
    after_import(FUNCTIONAL, functools.partial(_watch_functional, recorder, depth))


def _watched(recorder: Recorder, kind: str, original: Callable[..., Any], depth: _Depth) -> Callable[..., Any]:
    operations = Argument(original, "p2p_op_list")

    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        if depth.inside or not recorder.on:
            return original(*args, **kwargs)
        size_bytes = message_bytes(recorder, args, kwargs) or _batch_bytes(operations.of(args, kwargs))
        depth.inside = True
        _quietly(recorder, recorder.collective_begin)
        try:
            return original(*args, **kwargs)
        finally:
            depth.inside = False
            receives = kind == "batch_isend_irecv" and _only_receives(operations.of(args, kwargs))
            _quietly(recorder, functools.partial(recorder.collective_end, "recv" if receives else kind, size_bytes))

    return watched


def _batch_bytes(operations: Any) -> int:
    """Returns the bytes of the larger direction of a batch of messages."""
    ways = {"isend": 0, "irecv": 0}
    for one in operations if isinstance(operations, (list, tuple)) else ():
        tensor, way = getattr(one, "tensor", None), getattr(getattr(one, "op", None), "__name__", "")
        if isinstance(tensor, torch.Tensor) and way in ways:
            ways[way] += tensor.numel() * tensor.element_size()
    return max(ways.values())


def _only_receives(operations: Any) -> bool:
    """Returns whether a batch of messages only receives: a later stage of a pipeline waits so for its first piece."""
    names = [getattr(getattr(one, "op", None), "__name__", "") for one in operations or ()]
    return bool(names) and set(names) == {"irecv"}


def _watch_functional(recorder: Recorder, depth: _Depth) -> None:
    module = vars(sys.modules[FUNCTIONAL])
    for one in functions_in(FUNCTIONAL):
        if one.name in module:
            module[one.name] = _watched_eagerly(recorder, one.kind, module[one.name], depth)


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
