"""Which tensors the script believes to be on a GPU: those it has put there, and what was computed from them."""

import weakref
from typing import Any

import torch


class Belief:
    """Kept by storage, so that views, parameters and what `data` is set to need no care of their own."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, Any]] = {}
        self.current = 0  # the index that plain "cuda" means

    def place(self, tensor: torch.Tensor) -> int | None:
        """The index of the GPU it is believed on; None: the host."""
        found = self._places.get(key_of(tensor))
        return None if found is None else found[0]

    def put(self, tensor: torch.Tensor, place: int) -> None:
        """From now on it is believed there, with all that shares its storage."""
        key = key_of(tensor)
        if key:
            forget = self._places.pop
            reference = weakref.ref(tensor.untyped_storage(), lambda _: forget(key, None))
            self._places[key] = place, reference

    def pass_on(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What is computed from a tensor on a GPU is there, too; a view or a tensor changed in place stays."""
        made = [one for one in (result if isinstance(result, (tuple, list)) else (result,)) if _is_tensor(one)]
        if not made or not self._places:
            return
        sources = [one for one in _flat((*args, *kwargs.values())) if _is_tensor(one)]
        place = next(filter(lambda one: one is not None, map(self.place, sources)), None)
        if place is None:
            return
        known = {key_of(one) for one in sources}
        for tensor in made:
            if key_of(tensor) not in known:
                self.put(tensor, place)


def key_of(tensor: torch.Tensor) -> int:
    """The storage's identity while it lives; 0 where there is none (sparse, fake, functional)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return 0


def gpu_index(device: Any, current: int) -> int | None:
    """Which GPU is meant; None when it is none."""
    if isinstance(device, str):
        kind, _, index = device.partition(":")
        return (int(index) if index.isdecimal() else current) if kind == "cuda" else None
    if isinstance(device, torch.device):
        return (current if device.index is None else device.index) if device.type == "cuda" else None
    return device if isinstance(device, int) and not isinstance(device, bool) and device >= 0 else None


def is_host(device: Any) -> bool:
    """Whether the host's own memory is meant."""
    return str(device).partition(":")[0] == "cpu" if isinstance(device, (str, torch.device)) else False


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _flat(values: tuple[Any, ...]) -> list[Any]:
    """One level of lists is opened: torch.cat and its like take one."""
    found: list[Any] = []
    for value in values:
        found.extend(value) if isinstance(value, (tuple, list)) else found.append(value)
    return found
