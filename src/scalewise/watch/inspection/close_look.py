"""Records memory by device and purpose, and transfers: the part of an inspection that looks at every operation.

What autograd keeps for backward is counted by hooks that return what they are given.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import Optimizer
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves

from scalewise.records.inspection import LOGICAL_PREFIX, DeviceMemoryRow, MemoryByLineRow, MemoryPartsRow
from scalewise.watch.inspection.ledger import Books, Moment, Operations, StorageEntry, text_of_line
from scalewise.watch.inspection.tensor_places import device_of, local_part, own_parameters, storage_bytes
from scalewise.watch.seams import Given, Guard, seam

MOST_LINES = 100  # of a step; the rest is small, and its sum is known from the parts
Broke = Callable[[str, Exception], None]
_hooks: Any = torch._C._autograd


class _Thread(threading.local):
    """The mode of each thread, as the stack of modes is the thread's own."""

    operations: Operations | None = None


class CloseLook:
    """A look at every operation in a few steps, off for good after them."""

    def __init__(self, moment: Moment, broke: Broke) -> None:
        self._moment = moment
        self._broke = broke
        self._books = Books(moment, broke)
        self.saved = SavedTensors(self._books, broke)
        self._thread = _Thread()
        self._on = False
        self._activation_bytes = self._gradient_bytes = self._optimizer_bytes = 0  # largest of the step
        self._devices: set[str] = set()  # of the layers
        self._weights: list[torch.Tensor] = []

    def begin_step(self, root: nn.Module) -> None:
        """Enters what is there already, and from then on every operation."""
        if not self._on:
            self._on = True
            self._weights = list(root.parameters())
            for parameter in self._weights:
                self._books.sharded |= local_part(parameter) is not parameter
                self._books.ledger.label(self._books.own(local_part(parameter), "weights"), "weights")
                self._devices.add(device_of(parameter))
            for buffer in root.buffers():
                self._books.own(buffer, "other")
        self._books.ledger.begin_step()
        self._enter_mode()

    def see_gathered(self, module: nn.Module) -> None:
        """Enters the whole parameters that FSDP has gathered for a module: they are weights for that time."""
        if self._on and self._books.sharded:
            for one in own_parameters(module):
                if local_part(one) is one:
                    self._books.ledger.label(self._books.own(one, "weights"), "weights")

    def resized(self, args: tuple[Any, ...], kwargs: Given, result: Any) -> None:
        """Enters the new size of a storage."""
        if self._on:
            self._books.ledger.resize(args[0])

    def begin_forward(self) -> None:
        """Begins to count what autograd keeps for backward."""
        if self._on:
            self.saved.push()

    def enter_thread(self) -> None:
        """Begins to look in a thread that works for the main one's step (nn.DataParallel's), with stacks of its own."""
        if self._on:
            self._enter_mode()
            self.begin_forward()

    def leave_thread(self) -> None:
        """Stops looking in a thread that has finished its part."""
        self.saved.pop()
        self._leave_mode()

    def begin_backward(self) -> None:
        """Counts what autograd keeps when backward begins, when it is most."""
        self.saved.pop()
        if self._on:
            self._activation_bytes = max(self._activation_bytes, self.saved.kept_bytes())

    def end_backward(self, parameters: Iterable[torch.Tensor]) -> None:
        """Counts what autograd has left in the parameters: the gradients."""
        if self._on:
            gradients = [one.grad for one in (*self._weights, *parameters) if one.grad is not None]
            self._gradient_bytes = max(self._gradient_bytes, storage_bytes(gradients))
            self._enter_all(gradients, "gradients")

    def begin_optimizer(self, parameters: Iterable[torch.Tensor]) -> None:
        """Counts the gradients again, as some may have been put there by hand."""
        self.end_backward(parameters)

    def end_optimizer(self, optimizers: Iterable[Optimizer]) -> None:
        """Counts the optimizers' state, which exists from the first step on."""
        if self._on:
            held = [one for optimizer in optimizers for one in tree_leaves(list(optimizer.state.values()))]
            state = [one for one in held if isinstance(one, torch.Tensor)]
            self._optimizer_bytes = max(self._optimizer_bytes, storage_bytes(state))
            self._enter_all(state, "optimizer")

    def end_step(self, last: bool) -> list[object]:
        """The rows of a step, between it and the next; after the last one nothing is looked at any more."""
        if not self._on:
            return []
        ledger = self._books.ledger
        rows: list[object] = [*self._books.transfers]
        if self._books.on:
            rows.append(
                MemoryPartsRow(
                    step=self._moment.step,
                    weight_bytes=storage_bytes(self._weights),
                    gradient_bytes=self._gradient_bytes,
                    optimizer_bytes=self._optimizer_bytes,
                    activation_bytes=self._activation_bytes,
                    half_copy_bytes=ledger.largest("half copies"),
                    bucket_bytes=ledger.largest("buckets"),
                    peak_bytes=ledger.peak_bytes,
                    at_peak=ledger.at_peak(),
                )
            )
            rows += [
                MemoryByLineRow(self._moment.step, purpose, size, file, line, text_of_line(file, line))
                for purpose, (file, line), size in ledger.lines_at_peak()[:MOST_LINES]
            ]
        self._books.transfers = []
        self._activation_bytes = self._gradient_bytes = self._optimizer_bytes = 0
        if last:
            rows += self._device_rows()
            self.stop()
        return rows

    def last_rows(self) -> list[object]:
        """The rows at the end of the script: what GPUs have held over the whole run."""
        if not torch.cuda.is_available() or not torch.cuda.is_initialized():
            return []
        devices = range(torch.cuda.device_count())
        peaks = [(f"cuda:{index}", torch.cuda.max_memory_allocated(index)) for index in devices]
        return [DeviceMemoryRow(device, peak) for device, peak in peaks if peak]

    def stop(self) -> None:
        """Stops looking for good."""
        self._on = self._books.on = self.saved.on = False
        self.saved.pop()
        self._leave_mode()
        self._weights = []

    def _device_rows(self) -> list[object]:
        """The rows of devices that hold layers; not of GPUs, whose own allocator knows better and is read later."""
        peaks = self._books.ledger.device_peaks
        return [
            DeviceMemoryRow(device, peaks[device])
            for device in sorted(peaks)
            if device in self._devices or device.startswith(LOGICAL_PREFIX)
            if not device.startswith("cuda")
        ]

    def _enter_all(self, tensors: Iterable[torch.Tensor], purpose: str) -> None:
        for tensor in map(local_part, tensors):
            if tensor.layout is torch.strided:
                self._books.ledger.label(self._books.own(tensor, purpose), purpose)

    def _enter_mode(self) -> None:
        """Enters our mode, unless the script has one of its own, whose place on the stack ours could take."""
        if self._thread.operations is None and self._books.on:
            if _get_current_dispatch_mode() is not None:
                self._broke("memory and transfers", RuntimeError("the script has a dispatch mode of its own"))
                return
            operations: Any = Operations(self._books)
            operations.__enter__()
            self._thread.operations = operations

    def _leave_mode(self) -> None:
        operations = self._thread.operations
        if operations is not None and operations is _get_current_dispatch_mode():
            self._thread.operations = None
            operations.__exit__(None, None, None)  # type: ignore[no-untyped-call]


# ---- what autograd keeps


class _SavingThread(threading.local):
    """The state of each thread, as the stack of hooks is the thread's own."""

    pushed = False


class SavedTensors:
    """A pair of hooks on the stack only while forward passes run, and only if no hook of the script's is there."""

    def __init__(self, books: Books, broke: Callable[[str, Exception], None]) -> None:
        self._books = books
        self._broke = broke
        self.on = True
        self._thread = _SavingThread()
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
        tensor = local_part(tensor)
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
