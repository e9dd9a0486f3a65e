"""Records every operation below autograd: which storages are made on which device, and which tensors move."""

import linecache
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from scalewise.records.inspection import LOGICAL_PREFIX, TransferRow
from scalewise.watch.inspection.ledger import Ledger, StorageEntry
from scalewise.watch.inspection.tensor_places import asking_line, device_of, logical_device_of

NAMESPACE = LOGICAL_PREFIX.rstrip(":")  # of the operators that hand over between logical devices
MOST_LETTERS = 200  # of a line of the script
MOST_TRANSFERS = 2000  # of one step


class Moment(Protocol):
    """The state of the script at the moment."""

    step: int
    phase: str
    paused: bool  # the watcher itself is at work


class Operations(TorchDispatchMode):
    """A mode that passes every operation on as it is; one per thread, all of them write into the same books."""

    def __init__(self, books: "Books") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._books = books

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs one operation of the thread and enters it into the books."""
        result = func(*args, **(kwargs or {}))
        self._books.see(func, args, kwargs or {}, result)
        return result


class Books:
    """The ledger, and the transfers of the step."""

    def __init__(self, moment: Moment, broke: Callable[[str, Exception], None]) -> None:
        self.ledger = Ledger()
        self.transfers: list[TransferRow] = []
        self.on = True
        self._moment = moment
        self._broke = broke

    def see(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Takes one finished operation; whatever goes wrong here ends the books, not the script."""
        if not self.on or self._moment.paused:
            return
        try:
            self._enter(func, args, kwargs, result)
        except Exception as error:
            self.on = False
            self._broke("memory and transfers", error)

    def _enter(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        inputs = _tensors((args, kwargs))
        entries = [self.own(tensor, "data") for tensor in inputs]
        move = _move(func, args, kwargs, inputs, result)
        place = next((entry.device for entry in entries if entry.device.startswith(LOGICAL_PREFIX)), None)
        if move is not None:
            source, target = move
            place = target if target.startswith(LOGICAL_PREFIX) else None
            self._note(source, target, inputs[-1] if _is(func, "copy_") else inputs[0])
        # What is made outside forward, backward and optimizer is data that the script has brought along.
        purpose = "data" if self._moment.phase == "own" else "other"
        for tensor in _tensors(result):
            entry = self.ledger.own(tensor, place or str(tensor.device), purpose, self._line)
            if entries and entries[0].purpose == "weights" and entry is not entries[0]:
                self._copied(entry, inputs[0], tensor, move is not None)
        if func.namespace == "c10d" and self._moment.phase == "backward":
            for entry in entries:
                self.ledger.label(entry, "buckets")  # unless they turn out to be the gradients themselves

    def _line(self) -> tuple[str, int]:
        """The script's line that is running; none in backward, which torch runs for no line in particular."""
        return ("", 0) if self._moment.phase == "backward" else asking_line()

    def own(self, tensor: torch.Tensor, purpose: str) -> StorageEntry:
        """The tensor's entry, on the device that the script has put it on."""
        entry = self.ledger.own(tensor, device_of(tensor), purpose)
        logical = logical_device_of(tensor)
        if logical is not None:
            self.ledger.move(entry, logical)
        return entry

    def _copied(self, entry: StorageEntry, weight: torch.Tensor, copy: torch.Tensor, moved: bool) -> None:
        """Labels a weight's copy: on another device it is a replica, in fewer bytes autocast's."""
        if copy.shape == weight.shape and copy.dtype.itemsize < weight.dtype.itemsize:
            self.ledger.label(entry, "half copies")
        elif moved:
            self.ledger.label(entry, "weights")

    def _note(self, source: str, target: str, tensor: torch.Tensor) -> None:
        backward = self._moment.phase == "backward"
        file, line = self._line()
        if len(self.transfers) < MOST_TRANSFERS:
            size = tensor.numel() * tensor.element_size()
            direction: Any = "backward" if backward else "forward"
            row = TransferRow(self._moment.step, direction, source, target, size, file, line, text_of_line(file, line))
            self.transfers.append(row)


def text_of_line(file: str, line: int) -> str:
    """The script's line as it is now, cut if it is very long; empty if there is none."""
    return linecache.getline(file, line).strip()[:MOST_LETTERS] if file else ""


def _tensors(values: Any) -> list[torch.Tensor]:
    """The tensors that have a storage of their own."""
    return [
        one
        for one in tree_leaves(values)
        if isinstance(one, torch.Tensor)
        and one.layout is torch.strided
        and one.device.type != "meta"
        and not is_traceable_wrapper_subclass(one)
    ]


def _is(func: Any, name: str) -> bool:
    return bool(func.namespace == "aten") and func._schema.name == f"aten::{name}"


def _move(func: Any, args: Any, kwargs: Any, inputs: list[torch.Tensor], result: Any) -> tuple[str, str] | None:
    """Source and target, if the operation copies a tensor from one device to another; else None."""
    if func.namespace == NAMESPACE:
        names = [one for one in tree_leaves((args, kwargs)) if isinstance(one, str)]
        return (names[0], names[1]) if len(names) >= 2 and inputs else None
    if not isinstance(result, torch.Tensor) or not inputs:
        return None
    if _is(func, "_to_copy") or _is(func, "copy_"):
        source = inputs[-1] if _is(func, "copy_") else inputs[0]
        if source.device != result.device:
            return str(source.device), str(result.device)
    return None
