"""The state of an examined rank's training loop: counts, its optimizers and wrappers, what is under way."""

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch

from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.notebook import Notebook, ObjectNumbers
from scalewise.watch.examination.probes import Probes

EARLY_WINDOWS = 12  # in which values are read, from a device, too
EARLY_PASSES = 24  # forward and backward passes that are looked at closely
_LONG_WINDOW_PASSES = 200  # for the first windows of a loop that accumulates over many


class Loop:
    """The state that the hooks of one process share."""

    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook
        self.recorder = notebook.recorder
        self.windows = 0  # steps noted
        self.backwards = 0
        self.scaling = 0  # depth of calls of enabled scalers' steps
        self.wrapper, self.sync = NOWHERE, False  # called last inside the outermost module call
        self.in_wrapper = 0
        self.hooks_on_saved = False  # saved tensors are the script's to unpack: reading one could recompute it
        self._optimizers, self._numbers = list[weakref.ref[Any]](), ObjectNumbers()
        self.probes = Probes()
        self.on_backward: list[Callable[[list[torch.Tensor]], None]] = []  # called with the tensors of each backward
        self.on_scaler: Callable[[Any, str], None] = lambda scaler, call: None
        self.unreached: Callable[[], set[str]] = set  # parameters of a DDP that no gradient reached since the last step
        self.after_step: list[Callable[[int], None]] = []  # called with the number of the step, from 1

    @property
    def early(self) -> bool:
        """Returns whether values may be read from a device, as they may in the first 12 windows."""
        return self.windows < EARLY_WINDOWS

    @property
    def close(self) -> bool:
        """Returns whether this backward pass is looked at closely."""
        return self.backwards < EARLY_PASSES or (self.windows < 3 and self.backwards < _LONG_WINDOW_PASSES)

    def optimizer(self, optimizer: Any) -> int:
        """The number of an optimizer; a new number if it is new."""
        number = self._numbers.of(optimizer)
        if number is None:
            number = self._numbers.give(optimizer)
            self._optimizers.append(weakref.ref(optimizer))
        return number

    def optimizers(self) -> list[tuple[int, Any]]:
        """The optimizers that still exist, with their numbers."""
        found = ((number, held()) for number, held in enumerate(self._optimizers))
        return [(number, optimizer) for number, optimizer in found if optimizer is not None]

    def backward_begins(self, tensors: list[torch.Tensor]) -> None:
        """Tells those who look at what backward is called on."""
        for tell in self.on_backward:
            try:
                tell(tensors)
            except Exception as error:
                self.notebook.broke("before backward", error)

    def step_over(self) -> None:
        """Closes the window after a step was noted."""
        self.windows += 1
        for tell in self.after_step:
            try:
                tell(self.windows)
            except Exception as error:
                self.notebook.broke("after a step", error)


@functools.cache
def loop_of(notebook: Notebook) -> Loop:
    """The one loop of a notebook's process."""
    return Loop(notebook)


def autocast_now() -> str | None:
    """The type that autocast of this thread computes in; None if it is off."""
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            return str(torch.get_autocast_dtype(device)).removeprefix("torch.")
    return None


def sampled(step: int) -> bool:
    """Returns whether a step is one of 1, 2, 4, 8, ..."""
    return step > 0 and step & (step - 1) == 0


def several_ranks() -> bool:
    """Returns whether there is a process group of more than one rank."""
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def capturing() -> bool:
    """Returns whether a CUDA graph is being recorded: nothing may be read from the device then."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
