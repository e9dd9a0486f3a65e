"""Notes when a tensor of the host is copied to a device: how large, from pinned memory or not, how often before."""

import functools
import inspect
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from scalewise.watch import redirect
from scalewise.watch.examination.host_reads import asked_not_to_wait
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.tensors import ordinary

CALLS = ("to", "cuda", "copy_")
MOST_KNOWN = 512  # storages that are remembered; those that are gone are forgotten first


def install(notebook: Notebook) -> None:
    """Wraps the methods that copy, if there can be a GPU or a stand-in for one."""
    if redirect.is_on():
        copies = _Copies(notebook, redirect.believed_on_gpu, real=False)
    elif torch.version.cuda is not None or torch.version.hip is not None:
        copies = _Copies(notebook, lambda tensor: bool(tensor.is_cuda), real=True)
    else:
        return
    for name in CALLS:
        setattr(torch.Tensor, name, copies.noted(name))


class _Copies:
    """The wrappers of methods that move a tensor; one may call another, and both are then one copy."""

    def __init__(self, notebook: Notebook, on_device: Callable[[Any], bool], real: bool) -> None:
        self._notebook, self._on_device, self._real = notebook, on_device, real
        self._inside = False
        self._known: dict[tuple[Any, ...], tuple[StorageWeakRef, int]] = {}

    def noted(self, name: str) -> Callable[..., Any]:
        """The method, with a note when its result is on the device and what it copied was not."""
        original = getattr(torch.Tensor, name)
        notebook = self._notebook

        @functools.wraps(original)
        def noted(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside or not notebook.on:
                return original(tensor, *args, **kwargs)
            self._inside = True
            began_ns = perf_counter_ns()
            try:
                result = original(tensor, *args, **kwargs)
            finally:
                self._inside = False
            lasted_ns = perf_counter_ns() - began_ns
            try:
                source = tensor if name != "copy_" else args[0] if args else kwargs["other"]
                if isinstance(source, torch.Tensor) and self._on_device(result) and not self._on_device(source):
                    self._note(name, source, asked_not_to_wait(args, kwargs), lasted_ns)
            except Exception as error:
                notebook.broke("copies", error)
            return result

        # The stand-in for a GPU looks for torch's own method below every wrapper.
        noted.__wrapped__ = inspect.unwrap(original)
        return noted

    def _note(self, name: str, source: torch.Tensor, non_blocking: bool, lasted_ns: int) -> None:
        if not ordinary(source) or source.device.type != "cpu":
            return
        size = source.numel() * source.element_size()
        pinned = source.is_pinned() if self._real else None
        self._notebook.note("copy", name, size, pinned, non_blocking, lasted_ns, self._times_before(source))

    def _times_before(self, source: torch.Tensor) -> int:
        """The number of earlier copies of the same values: the same memory, still held by the script, not changed."""
        if source.is_inference():
            return 0
        storage = source.untyped_storage()
        key = (storage._cdata, source.storage_offset(), tuple(source.shape), source.dtype, source._version)
        known = self._known.get(key)
        if known is not None and not known[0].expired():
            self._known[key] = (known[0], known[1] + 1)
            return known[1]
        if len(self._known) >= MOST_KNOWN:
            self._known = {one: held for one, held in self._known.items() if not held[0].expired()}
        if len(self._known) < MOST_KNOWN:
            self._known[key] = (StorageWeakRef(storage), 1)
        return 0
