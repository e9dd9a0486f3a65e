"""Copies a tensor that is copied to a GPU again and again, unchanged, only once: the copy is kept and given again."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seams

NAME = "kept_copies"
CHANGE = Declared(between_steps=True)
MOST_KNOWN = 512


class _Kept:
    """A tensor that was copied, and its copy once it was copied twice."""

    def __init__(self, source: torch.Tensor) -> None:
        self.source = StorageWeakRef(source.untyped_storage())
        self.copy: torch.Tensor | None = None
        self.version = 0


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps `Tensor.to` and `Tensor.cuda`; a copy that was written to is not given again."""
    known: dict[tuple[Any, ...], _Kept] = {}

    def move(call: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if tensor.device.type != "cpu" or tensor.requires_grad or tensor.is_inference():
            return call(tensor, *args, **kwargs)
        storage = tensor.untyped_storage()
        place = (storage._cdata, tensor.storage_offset(), tuple(tensor.shape), tensor.dtype, tensor._version)
        key = (*place, str(args), str(kwargs))
        held = known.get(key)
        if held is not None and held.source.expired():
            held = None
        if held is not None and held.copy is not None and held.copy._version == held.version:
            recorder.intervene(NAME)
            return held.copy
        result = call(tensor, *args, **kwargs)
        if not result.is_cuda:
            return result
        if held is not None:
            held.copy, held.version = result, result._version
        elif len(known) < MOST_KNOWN or _forgets_some(known):
            known[key] = _Kept(tensor)
        return result

    for moves in seams(torch.Tensor, ("to", "cuda")).values():
        moves.around(move)


def _forgets_some(known: dict[tuple[Any, ...], _Kept]) -> bool:
    for key in [key for key, held in known.items() if held.source.expired()]:
        del known[key]
    return len(known) < MOST_KNOWN
