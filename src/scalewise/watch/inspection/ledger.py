"""Keeps account of storages: which are alive, on which device, what for, and which were alive at the memory peak."""

import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import torch

from scalewise.records.inspection import PURPOSES

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
        self._at_peak: list[StorageEntry] | None = None
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
        for entry in self._peak_entries():
            found[entry.purpose] += entry.size
        return {purpose: found[purpose] for purpose in PURPOSES if found[purpose]}

    def lines_at_peak(self) -> list[tuple[str, tuple[str, int], int]]:
        """The bytes at the step's peak by purpose and by the script's line that made them, the largest first."""
        found: Counter[tuple[str, tuple[str, int]]] = Counter()
        for entry in self._peak_entries():
            found[entry.purpose, entry.line] += entry.size
        return [(purpose, line, size) for (purpose, line), size in found.most_common()]

    def _peak_entries(self) -> list[StorageEntry]:
        return list(self._alive.values()) if self._at_peak is None else self._at_peak

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
                if self._at_peak is None and self._now == self.peak_bytes:
                    self._at_peak = list(self._alive.values())  # memory shrinks now, so this is the peak
                del self._alive[entry.key]
                self._charge(entry, -entry.size)
