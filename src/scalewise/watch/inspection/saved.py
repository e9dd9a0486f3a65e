"""Counts what autograd keeps for backward, by hooks that return what they are given."""

import threading
from collections.abc import Callable
from typing import Any

import torch

from scalewise.watch.inspection.dispatch import Books
from scalewise.watch.inspection.ledger import StorageEntry
from scalewise.watch.seams import Given, Guard, seam

_hooks: Any = torch._C._autograd


class _Thread(threading.local):
    """The state of each thread, as the stack of hooks is the thread's own."""

    pushed = False


class SavedTensors:
    """A pair of hooks on the stack only while forward passes run, and only if no hook of the script's is there."""

    def __init__(self, books: Books, broke: Callable[[str, Exception], None]) -> None:
        self._books = books
        self._broke = broke
        self.on = True
        self._thread = _Thread()
        self._kept: dict[tuple[int, int, int], tuple[StorageEntry, int]] = {}

    def push(self) -> None:
        """Puts the hooks on this thread's stack, if they may be there and are not."""
        if not self.on or self._thread.pushed:
            return
        if _hooks._top_saved_tensors_default_hooks(False) is not None or not _hooks._saved_tensors_hooks_is_enabled():
            self._broke("activations", RuntimeError("some were kept by hooks of the script's own, and not seen"))
            return
        _hooks._push_saved_tensors_default_hooks(self._pack, _unpack)
        self._thread.pushed = True

    def pop(self) -> None:
        """Takes the hooks off the stack; beneath hooks of the script's they must wait."""
        top = _hooks._top_saved_tensors_default_hooks(False) if self._thread.pushed else None
        if top is not None and top[1] is _unpack:
            _hooks._pop_saved_tensors_default_hooks()
            self._thread.pushed = False

    def kept_bytes(self) -> int:
        """The bytes that were kept since the last question and are still alive."""
        kept, self._kept = self._kept, {}
        counted = {}
        for (key, offset, _), (entry, size) in kept.items():
            if self._books.ledger.is_alive(entry) and entry.purpose in ("activations", "data"):
                counted[(key, offset) if entry.purpose == "data" else key] = size
        return sum(counted.values())

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        try:
            if self.on and tensor.layout is torch.strided and tensor.device.type != "meta":
                self._keep(tensor)
        except Exception as error:
            self.on = False
            self._broke("activations", error)
        return tensor

    def _keep(self, tensor: torch.Tensor) -> None:
        entry = self._books.own(tensor, "data")  # what no operation has made so far was there before
        if entry.purpose == "other":
            self._books.ledger.label(entry, "activations")
        # For data that the script brought along only the part that is kept counts: a batch may be a piece of a whole.
        size = tensor.numel() * tensor.element_size() if entry.purpose == "data" else entry.size
        self._kept[entry.key, int(tensor.storage_offset()), tensor.numel()] = (entry, size)

    def step_aside_for_transforms(self, guard: Guard) -> None:
        """Takes our hooks off before torch.func works, which refuses while any such hook is on the stack."""
        switch = seam(torch.autograd.graph, "disable_saved_tensors_hooks")
        switch.before(guard, self._step_aside)

    def _step_aside(self, args: tuple[Any, ...], kwargs: Given) -> None:
        self.pop()


def _unpack(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
