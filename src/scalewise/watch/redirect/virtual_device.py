"""Tracks the tensors that the script believes to be on a GPU: those it has put there, and those computed from them.

The bytes on each of several stand-in devices are counted, and the most there ever were, as an allocator for each would.
"""

import threading
import weakref
from collections import Counter, deque
from typing import Any

import torch


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


class VirtualTensors:
    """The places of tensors, kept by storage, so that views, parameters and set `data` need no extra care."""

    def __init__(self, real: str = "cpu", held: Held | None = None) -> None:
        self._places: dict[int, tuple[int, Any]] = {}
        self._thread = threading.local()
        self.real = real  # where all that is believed on a GPU really lies
        self.held = held  # counts the bytes of each GPU; None: the GPUs are not told apart

    @property
    def current(self) -> int:
        """The index that plain "cuda" means in this thread."""
        return getattr(self._thread, "current", 0)

    @current.setter
    def current(self, index: int) -> None:
        self._thread.current = index

    def place(self, tensor: torch.Tensor) -> int | None:
        """The index of the GPU that a tensor is believed on; None: the host."""
        found = self._places.get(key_of(tensor))
        return None if found is None else found[0]

    def put(self, tensor: torch.Tensor, place: int) -> None:
        """Notes that a tensor is believed on that GPU from now on, with all that shares its storage."""
        key = key_of(tensor)
        if not key:
            return
        forget, held = self._places.pop, self.held
        storage = tensor.untyped_storage()
        if held is None:
            self._places[key] = place, weakref.ref(storage, lambda _: forget(key, None))
            return
        known = self._places.get(key)
        if known is not None:
            if known[0] == place:
                return
            held.take(known[0], storage.nbytes())
        size = storage.nbytes()

        def over(_: object) -> None:
            gone = forget(key, None)
            if gone is not None:
                held.take(gone[0], size)

        held.add(place, size)
        self._places[key] = place, weakref.ref(storage, over)

    def pass_on(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Puts what is computed from a tensor on a GPU there, too; a view or a tensor changed in place stays."""
        made = result if isinstance(result, (tuple, list)) else (result,)
        for tensor in made if self._places else ():
            key = key_of(tensor) if isinstance(tensor, torch.Tensor) else 0
            if key and key not in self._places:
                sources = [one for one in _flat((*args, *kwargs.values())) if isinstance(one, torch.Tensor)]
                place = next(filter(lambda one: one is not None, map(self.place, sources)), None)
                if place is None:
                    return
                if key not in map(key_of, sources):
                    self.put(tensor, place)


def key_of(tensor: torch.Tensor) -> int:
    """The storage's identity while it exists; 0 if there is none (sparse, fake, functional)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return 0


def gpu_index(device: Any, current: int) -> int | None:
    """The index of the GPU that is meant; None if no GPU is meant."""
    if isinstance(device, str):
        kind, _, index = device.partition(":")
        return (int(index) if index.isdecimal() else current) if kind == "cuda" else None
    if isinstance(device, torch.device):
        return (current if device.index is None else device.index) if device.type == "cuda" else None
    return device if isinstance(device, int) and not isinstance(device, bool) and device >= 0 else None


def is_host(device: Any) -> bool:
    """Returns whether the host's own memory is meant."""
    return str(device).partition(":")[0] == "cpu" if isinstance(device, (str, torch.device)) else False


def _flat(values: tuple[Any, ...]) -> list[Any]:
    """The values, with one level of lists opened: torch.cat and its like take one."""
    found: list[Any] = []
    for value in values:
        found.extend(value) if isinstance(value, (tuple, list)) else found.append(value)
    return found
