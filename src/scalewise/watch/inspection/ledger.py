"""Keeps account of storages: which are alive, on which device, what for, and which were alive at the memory peak.

Every operation below autograd is entered into the books: which storages it makes, and which tensors it moves.
"""

import linecache
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from scalewise.records.inspection import LOGICAL_PREFIX, PURPOSES, TransferRow
from scalewise.watch.inspection.tensor_places import asking_line, device_of, logical_device_of

_STRENGTH = {purpose: len(PURPOSES) - place for place, purpose in enumerate(PURPOSES)}


class StorageEntry:
    """One storage; its entry keeps the purpose after the storage has been freed, for later questions."""

    __slots__ = ("device", "key", "line", "purpose", "reference", "size")

    def __init__(self, key: int, size: int, device: str, purpose: str) -> None:
        self.key, self.size, self.device, self.purpose = key, size, device, purpose
        self.reference: Any = None
        self.line: tuple[str, int] = ("", 0)  # the script's line that made it


class Ledger:
    """An account that is charged when tensors appear, and credited when a weak reference reports a freed storage.

    Storages are freed at any moment and in any thread, so that is only queued then, and booked before the next entry.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._alive: dict[int, StorageEntry] = {}
        self._dead: deque[StorageEntry] = deque()
        self._now = 0
        self._on_device: Counter[str] = Counter()
        self._for_purpose: Counter[str] = Counter()
        self.device_peaks: dict[str, int] = {}
        self.begin_step()

    def begin_step(self) -> None:
        """Begins to count the peaks of a new step; those of the devices go on."""
        self._book_deaths()
        self.peak_bytes = self._now
        self._at_peak: list[tuple[StorageEntry, int]] | None = None  # with the sizes of that moment
        self._purpose_peaks = Counter(self._for_purpose)

    def own(
        self, tensor: torch.Tensor, device: str, purpose: str, made_at: Callable[[], tuple[str, int]] | None = None
    ) -> StorageEntry:
        """The entry of the tensor's storage, made if it is new; `made_at` is then asked for the script's line."""
        with self._lock:
            self._book_deaths()
            storage = tensor.untyped_storage()
            entry = self._alive.get(storage._cdata)
            if entry is None:
                entry = self._new(storage, device, purpose)
                entry.line = made_at() if made_at is not None else ("", 0)
            return entry

    def move(self, entry: StorageEntry, device: str) -> None:
        """Moves a storage to the device where it really lies, as the script has said."""
        with self._lock:
            if entry.device != device:
                self._charge(entry, -entry.size)
                entry.device = device
                self._charge(entry, entry.size)

    def resize(self, storage: Any) -> None:
        """Enters the size that a storage has now: FSDP gives back what it has gathered by making it empty."""
        with self._lock:
            self._book_deaths()
            entry = self._alive.get(storage._cdata)
            if entry is not None:
                self._shrinks()
                self._charge(entry, storage.nbytes() - entry.size)
                entry.size = storage.nbytes()

    def label(self, entry: StorageEntry, purpose: str) -> None:
        """Gives a storage a purpose if it is stronger than the present one: a saved weight stays a weight."""
        with self._lock:
            if _STRENGTH[purpose] > _STRENGTH[entry.purpose]:
                size = entry.size if self._alive.get(entry.key) is entry else 0
                self._charge(entry, -size)
                entry.purpose = purpose
                self._charge(entry, size)

    def is_alive(self, entry: StorageEntry) -> bool:
        """Returns whether the entry's storage still exists."""
        with self._lock:
            self._book_deaths()
            return self._alive.get(entry.key) is entry

    def largest(self, purpose: str) -> int:
        """The most bytes that served the purpose at once in this step."""
        return self._purpose_peaks[purpose]

    def at_peak(self) -> dict[str, int]:
        """The bytes by purpose at the step's peak, with the purposes as known now."""
        found: Counter[str] = Counter()
        for entry, size in self._peak_entries():
            found[entry.purpose] += size
        return {purpose: found[purpose] for purpose in PURPOSES if found[purpose]}

    def lines_at_peak(self) -> list[tuple[str, tuple[str, int], int]]:
        """The bytes at the step's peak by purpose and by the script's line that made them, the largest first."""
        found: Counter[tuple[str, tuple[str, int]]] = Counter()
        for entry, size in self._peak_entries():
            found[entry.purpose, entry.line] += size
        return [(purpose, line, size) for (purpose, line), size in found.most_common()]

    def _peak_entries(self) -> list[tuple[StorageEntry, int]]:
        return self._sizes() if self._at_peak is None else self._at_peak

    def _sizes(self) -> list[tuple[StorageEntry, int]]:
        return [(entry, entry.size) for entry in self._alive.values()]

    def _shrinks(self) -> None:
        """Keeps what is there if it was never more: memory shrinks now, so this is the peak."""
        if self._at_peak is None and self._now == self.peak_bytes:
            self._at_peak = self._sizes()

    def _new(self, storage: Any, device: str, purpose: str) -> StorageEntry:
        entry = StorageEntry(storage._cdata, storage.nbytes(), device, purpose)
        dead = self._dead
        entry.reference = weakref.ref(storage, lambda _: dead.append(entry))
        self._alive[entry.key] = entry
        self._charge(entry, entry.size)
        return entry

    def _charge(self, entry: StorageEntry, size: int) -> None:
        self._now += size
        self._on_device[entry.device] += size
        self._for_purpose[entry.purpose] += size
        if self._now > self.peak_bytes:
            self.peak_bytes, self._at_peak = self._now, None
        self.device_peaks[entry.device] = max(self._on_device[entry.device], self.device_peaks.get(entry.device, 0))
        self._purpose_peaks[entry.purpose] = max(self._for_purpose[entry.purpose], self._purpose_peaks[entry.purpose])

    def _book_deaths(self) -> None:
        while self._dead:
            entry = self._dead.popleft()
            if self._alive.get(entry.key) is entry:
                self._shrinks()
                del self._alive[entry.key]
                self._charge(entry, -entry.size)


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
        """Runs one operation of the thread and enters it into the books; one on shards comes back part by part."""
        if any(issubclass(one, torch.Tensor) and hasattr(one, "__tensor_flatten__") for one in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        self._books.see(func, args, kwargs or {}, result)
        return result


class Books:
    """The ledger, and the transfers of the step."""

    def __init__(self, moment: Moment, broke: Callable[[str, Exception], None]) -> None:
        self.ledger = Ledger()
        self.transfers: list[TransferRow] = []
        self.on = True
        self.sharded = False  # parameters lie in parts on several ranks, so that no message is a bucket of DDP's
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
        if func.namespace == "c10d" and self._moment.phase == "backward" and not self.sharded:
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
