"""Notes at steps 1, 2, 4, ... how many losses and graphs of earlier steps the script still holds."""

import atexit
import weakref

import torch

from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.loop import Loop, loop_of, sampled
from scalewise.watch.examination.loss import reduction_node
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.probe_torch import heap_bytes

MOST_FOLLOWED = 20_000
ALL_PASSES, ONE_IN = 64, 8  # losses of the first backward passes are all followed, then one in so many
_KEY = "scalewise"


def install(notebook: Notebook) -> None:
    """Registers looks at what backward is called on, at each step, and at the end."""
    loop = loop_of(notebook)
    kept = _Kept(loop)
    loop.on_backward.append(kept.follow)
    loop.after_step.append(kept.look)
    atexit.register(kept.at_end)


class _Sign:
    """A marker that lives as long as the node of a graph that it was put into."""

    __slots__ = ("__weakref__",)


class _Kept:
    """The weak references to every loss followed, and to the node that made it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._losses: set[weakref.ref[torch.Tensor]] = set()
        self._graphs: set[weakref.ref[_Sign]] = set()
        self._passes = self._seen = self._most = 0

    def follow(self, tensors: list[torch.Tensor]) -> None:
        """Follows the losses of a backward pass; a node's own dictionary keeps the marker as long as the node."""
        self._passes += 1
        if self._passes > ALL_PASSES and self._passes % ONE_IN:
            return
        for tensor in tensors:
            self._seen += 1
            if tensor.grad_fn is not None and len(self._graphs) < MOST_FOLLOWED:
                sign = reduction_node(tensor).metadata.setdefault(_KEY, _Sign())
                self._graphs.add(weakref.ref(sign, self._graphs.discard))
                self._losses.add(weakref.ref(tensor, self._losses.discard))

    def look(self, step: int) -> None:
        """Counts what is held after a step, and notes it after steps 1, 2, 4, ..."""
        self._most = max(self._most, len(self._graphs))
        if sampled(step):
            self._note(step)

    def at_end(self) -> None:
        """Notes what happened since the last note; the script's own variables may be gone by now."""
        if self._loop.notebook.on and self._most:
            self._note(self._loop.windows)

    def _note(self, step: int) -> None:
        values = (step, len(self._losses), self._seen, self._most, _held_bytes())
        self._loop.notebook.note("kept", *values, place=NOWHERE)
        self._most = 0


def _held_bytes() -> int | None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return sum(torch.cuda.memory_allocated(device) for device in range(torch.cuda.device_count()))
    return heap_bytes()
