"""Counts bytes on each of several stand-in devices, and the most there ever were, as an allocator for each would."""

import threading
from collections import Counter, deque


class Held:
    """The bytes held on each device.

    Storages are freed at any moment and in any thread, so that is queued then, and booked before the next question.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._ended: deque[tuple[int, int]] = deque()
        self._now: Counter[int] = Counter()
        self._peaks: Counter[int] = Counter()
        self._counted = 0  # bytes at the start of the largest backward pass that was looked into

    def add(self, place: int, size: int) -> None:
        """Adds a storage to a device."""
        with self._lock:
            self._book()
            self._now[place] += size
            self._peaks[place] = max(self._peaks[place], self._now[place])

    def take(self, place: int, size: int) -> None:
        """Takes a storage off a device."""
        self._ended.append((place, size))

    def now(self, place: int) -> int:
        """The bytes on a device now."""
        with self._lock:
            self._book()
            return self._now[place]

    def peak(self, place: int) -> int:
        """The most bytes that have been on a device."""
        with self._lock:
            self._book()
            return self._peaks[place]

    def forget_peak(self, place: int) -> None:
        """Begins a new peak."""
        with self._lock:
            self._book()
            self._peaks[place] = self._now[place]
            self._counted = 0

    def is_larger_pass(self) -> bool:
        """Returns whether more is held than before any pass looked into, so that this one may be the peak."""
        with self._lock:
            self._book()
            held = sum(self._now.values())
            larger, self._counted = held > self._counted, max(held, self._counted)
            return larger

    def _book(self) -> None:
        while self._ended:
            place, size = self._ended.popleft()
            self._now[place] -= size
