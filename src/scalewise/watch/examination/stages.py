"""Notes in which order the devices of a model that lies on several take their turns, in the first windows."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from scalewise.records.examination import StagesRow
from scalewise.records.notes import NOWHERE
from scalewise.watch import redirect
from scalewise.watch.examination.loop import Loop
from scalewise.watch.hooks.forward import first_tensor

WINDOWS = 6  # looked at
MOST_TURNS = 64
_MOST_NODES = 400  # walked back to see what a tensor was made from


class Stages:
    """The turns between two backward passes, whether in one module or in several that the script calls."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._devices: set[str] = set()  # of all modules that were called to train
        self.looking = False
        self._place = NOWHERE
        self._forget()
        loop.on_backward.append(self._tell)

    def _forget(self) -> None:
        self._called: set[int] = set()
        self._turns: list[str] = []
        self._last: Any = None  # node of the graph that made the last layer's output
        self._chained, self._repeated = True, False

    def begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Prepares for a call of the outermost module."""
        self.looking = False
        if self._loop.windows >= WINDOWS or not (module.training and torch.is_grad_enabled()):
            return
        self._devices.update(_device(one) for one in module.parameters())
        self.looking = len(self._devices) > 1
        if self.looking:
            self._enter(module, args, kwargs)

    def call(self, plain: Callable[..., Any], module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a module inside the outermost one, and notes its turn."""
        try:
            self._enter(module, args, kwargs)
        except Exception as error:
            self._loop.notebook.broke("stages", error)
        result = plain(module, *args, **kwargs)
        self._leave(result)
        return result

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Notes the turn of a layer: a module with parameters of its own."""
        own = next((one for one in module._parameters.values() if one is not None), None)
        if own is None:
            return
        device = _device(own)
        self._repeated = self._repeated or id(module) in self._called
        self._called.add(id(module))
        if self._turns and self._turns[-1] != device:
            given = first_tensor((args, kwargs), depth=3)
            self._chained = self._chained and _made_from(given.grad_fn if given is not None else None, self._last)
        if (not self._turns or self._turns[-1] != device) and len(self._turns) < MOST_TURNS:
            self._turns.append(device)

    def _leave(self, result: Any) -> None:
        made = first_tensor(result, depth=3)
        if made is not None and made.grad_fn is not None:
            self._last = made.grad_fn

    def end(self, result: Any) -> None:
        """Notes that the outermost module has returned."""
        if self.looking:
            self.looking = False
            self._place = self._loop.notebook.places.here()
            self._leave(result)

    def _tell(self, tensors: list[torch.Tensor]) -> None:
        """Writes the turns of the forward pass when backward is about to be called."""
        if len(self._turns) > 1:
            step = self._loop.windows + 1
            row = StagesRow(step, self._place, tuple(self._turns), self._chained, self._repeated)
            self._loop.notebook.row(row)
        self._forget()


def _device(tensor: torch.Tensor) -> str:
    """The device where a tensor lies, or where the script believes it to lie."""
    believed = redirect.believed_gpu(tensor)
    return str(tensor.device) if believed is None else f"cuda:{believed}"


def _made_from(node: Any, source: Any) -> bool:
    """Returns whether the node comes after the source in the graph."""
    if node is None or source is None:
        return False
    waiting, seen = [node], {node}
    while waiting and len(seen) < _MOST_NODES:
        one = waiting.pop()
        if one == source:
            return True
        for child, _ in one.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)
    return False
