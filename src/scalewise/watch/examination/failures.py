"""Notes the exception that ends the script, with its lines, and the parameters that had no gradient in the first step.

DDP complains of unused parameters one step late, when the gradients are gone, so the names are kept from the first
step.
"""

import functools
import sys
import weakref
from types import TracebackType
from typing import Any

import torch

from scalewise.records.examination import FailureRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.call_arguments import receiver
from scalewise.watch.examination.notebook import Notebook

MOST_LETTERS = 2000
MOST_NAMES = 200


def install(notebook: Notebook) -> None:
    """Puts a step before the current exception hook, and one before `sys.exit`."""
    unused = _Unused(notebook)
    unused.install()
    _see_exceptions(notebook, unused)
    _see_exits(notebook, unused)


def _see_exceptions(notebook: Notebook, unused: "_Unused") -> None:
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        try:
            if notebook.recorder.on:
                places = notebook.places.on_the_way(trace)
                place = places[0] if places else NOWHERE
                notebook.row(FailureRow(kind.__name__, str(error)[:MOST_LETTERS], place, places, unused.names))
                notebook.write()
        except Exception as trouble:
            notebook.broke("failure", trouble)
        previous(kind, error, trace)

    sys.excepthook = excepthook


def _see_exits(notebook: Notebook, unused: "_Unused") -> None:
    """Notes exit codes other than 0, which are failures too; if the script catches the exit, the rank's code tells."""
    original = sys.exit

    @functools.wraps(original)
    def exit(*args: Any, **kwargs: Any) -> Any:
        try:
            status = args[0] if args else None
            place = notebook.places.here()  # NOWHERE: whoever runs the script exits, not the script itself
            if notebook.on and place != NOWHERE and status not in (None, 0, False):
                notebook.row(FailureRow("SystemExit", str(status)[:MOST_LETTERS], place, (place,), unused.names))
        except Exception as error:
            notebook.broke("exit", error)
        return original(*args, **kwargs)

    sys.exit = exit


class _Unused:
    """The parameters of DDP modules that had no gradient when an optimizer first stepped."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._wrappers: list[weakref.ref[Any]] = []
        self._looked = False
        self.names: tuple[str, ...] = ()

    def install(self) -> None:
        """Wraps the constructor of DDP, and looks at gradients before the first step of all."""
        if not torch.distributed.is_available():
            return
        from torch.nn.parallel import DistributedDataParallel
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        original = DistributedDataParallel.__init__

        @functools.wraps(original)
        def __init__(*args: Any, **kwargs: Any) -> None:
            original(*args, **kwargs)
            self._wrappers.append(weakref.ref(receiver(args, kwargs)))

        kind: Any = DistributedDataParallel
        kind.__init__ = __init__
        register_optimizer_step_pre_hook(self._look)

    def _look(self, *args: Any) -> None:
        if self._looked or not self._wrappers:
            return
        self._looked = True
        try:
            self.names = tuple(self._without_gradient())[:MOST_NAMES]
        except Exception as error:
            self._notebook.broke("unused parameters", error)

    def _without_gradient(self) -> list[str]:
        modules = [wrapper() for wrapper in self._wrappers]
        return [
            name
            for module in modules
            if module is not None
            for name, parameter in module.module.named_parameters()
            if parameter.requires_grad and parameter.grad is None
        ]
