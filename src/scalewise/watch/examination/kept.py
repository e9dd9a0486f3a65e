"""Notes at steps 1, 2, 4, ... how many losses and graphs of earlier steps the script still holds."""

import weakref

import torch

from scalewise.watch.examination.loop import Loop, loop_of, sampled
from scalewise.watch.examination.loss import reduction_node
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.probe_torch import heap_bytes

MOST_FOLLOWED = 20_000
_KEY = "scalewise"


def install(notebook: Notebook) -> None:
    """Looks at what backward is called on."""
    loop = loop_of(notebook)
    kept = _Kept(loop)
    loop.on_backward.append(kept.follow)
    loop.after_step.append(kept.look)


class _Sign:
    """Lives as long as the node of a graph that it was put into."""

    __slots__ = ("__weakref__",)


class _Kept:
    """Weak references to every loss, and to the node that made it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._losses: list[weakref.ref[torch.Tensor]] = []
        self._graphs: list[weakref.ref[_Sign]] = []
        self._seen = 0

    def follow(self, tensors: list[torch.Tensor]) -> None:
        """Backward is about to be called on these. A node's own dictionary keeps the sign exactly as long as itself."""
        for tensor in tensors:
            self._seen += 1
            if tensor.grad_fn is not None and len(self._losses) < MOST_FOLLOWED:
                node = reduction_node(tensor)
                sign = node.metadata.setdefault(_KEY, _Sign())
                self._graphs.append(weakref.ref(sign))
                self._losses.append(weakref.ref(tensor))

    def look(self, step: int) -> None:
        """After a step."""
        if sampled(step):
            self._losses = [held for held in self._losses if held() is not None]
            self._graphs = list({held for held in self._graphs if held() is not None})
            self._loop.notebook.note(
                "kept", step, len(self._losses), self._seen, len(self._graphs), _held_bytes(), place=-1
            )


def _held_bytes() -> int | None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return sum(torch.cuda.memory_allocated(device) for device in range(torch.cuda.device_count()))
    return heap_bytes()
