"""Notes what a script does around its loop: seeds, saves, warnings, ranks that it starts, and how it fails.

With the exception that ends the script go its lines, and the parameters that had no gradient in the first step. DDP
complains of unused parameters one step late, when the gradients are gone, so the names are kept from the first step.

A distributed checkpoint is written by all ranks on purpose, each its own files; `torch.save` sees those one by one.
"""

import os
import random
import sys
import warnings
import weakref
from types import TracebackType
from typing import Any

import torch
import torch.multiprocessing as processes

from scalewise.records.examination import FailureRow, LauncherRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.call_arguments import Argument, receiver
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.imports import after_import
from scalewise.watch.seams import Given, seam, step_hooks

MOST_LETTERS = 2000  # of a failure
MOST_NAMES = 200
MOST_SEEDS = 32  # of one process: a dataset that seeds itself for every sample does not fill the notes
MOST_WARNINGS = 200
MOST_LETTERS_OF_A_WARNING = 500


def install(notebook: Notebook) -> None:
    """Puts a step before the current exception hook and before `sys.exit`, and looks at the other calls."""
    unused = _Unused(notebook)
    unused.install()
    _see_exceptions(notebook, unused)
    _see_exits(notebook, unused)
    _see_launchers(notebook)
    _see_saves(notebook)
    _see_warnings(notebook)
    _see_seeds(notebook)


def _see_seeds(notebook: Notebook) -> None:
    """Notes the line that advice on seeds has to name: torch's and Python's functions, numpy's when it is imported."""
    left = MOST_SEEDS

    def see(owner: Any, name: str, called: str) -> None:
        def seed(args: tuple[Any, ...], kwargs: Given, result: Any) -> None:
            nonlocal left
            if left > 0:
                left -= 1
                notebook.note("seed", called)

        seam(owner, name).after(notebook, seed)

    for owner in (torch, torch.random):  # dynamo has put a function of its own in the first
        see(owner, "manual_seed", "torch.manual_seed")
    see(random, "seed", "random.seed")
    after_import("numpy.random", lambda: see(sys.modules["numpy.random"], "seed", "numpy.random.seed"))


def _see_saves(notebook: Notebook) -> None:
    """Looks at `torch.save` now, and at safetensors when the script imports it."""

    def see(owner: Any, name: str, keyword: str, *also: Any) -> None:
        def save(args: tuple[Any, ...], kwargs: Given, result: Any) -> None:
            path = _path(args[1] if len(args) > 1 else kwargs.get(keyword))
            notebook.note("save", path, os.path.getsize(path) if path else 0)

        seam(owner, name, also).after(notebook, save)

    see(torch, "save", "f", torch.serialization)
    after_import("safetensors.torch", lambda: see(sys.modules["safetensors.torch"], "save_file", "filename"))


def _path(target: Any) -> str:
    """The real path of a file that was given by name or opened by name; empty for anything else."""
    named = target if isinstance(target, (str, os.PathLike)) else getattr(target, "name", None)
    if not isinstance(named, (str, os.PathLike)):
        return ""
    path = os.path.realpath(named)
    return path if os.path.isfile(path) else ""


def _see_warnings(notebook: Notebook) -> None:
    """Looks at the private function behind `showwarning`, which a script may replace."""
    left = MOST_WARNINGS

    def warning(args: tuple[Any, ...], kwargs: Given) -> None:
        nonlocal left
        if left > 0:
            left -= 1
            text = str(args[0].message)[:MOST_LETTERS_OF_A_WARNING]
            notebook.note("warning", args[0].category.__name__, text)

    seam(warnings, "_showwarnmsg").before(notebook, warning)


def _see_launchers(notebook: Notebook) -> None:
    """Notes a script that starts its ranks itself: the one function that every `mp.spawn` ends in."""
    module: Any = sys.modules["torch.multiprocessing.spawn"]
    nprocs, start_method = (Argument(module.start_processes, name) for name in ("nprocs", "start_method"))

    def start_processes(args: tuple[Any, ...], kwargs: Given) -> None:
        forked = start_method.of(args, kwargs, "spawn") == "fork"
        notebook.row(LauncherRow(notebook.places.here(), nprocs.of(args, kwargs, 1), forked))
        notebook.write()

    seam(module, "start_processes", [processes]).before(notebook, start_processes)


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

    def exits(args: tuple[Any, ...], kwargs: Given) -> None:
        status = args[0] if args else None
        place = notebook.places.here()  # NOWHERE: whoever runs the script exits, not the script itself
        if place != NOWHERE and status not in (None, 0, False):
            notebook.row(FailureRow("SystemExit", str(status)[:MOST_LETTERS], place, (place,), unused.names))

    seam(sys, "exit").before(notebook, exits)


class _Unused:
    """The parameters of DDP modules that had no gradient when an optimizer first stepped."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._wrappers: list[weakref.ref[Any]] = []
        self._looked = False
        self.names: tuple[str, ...] = ()

    def install(self) -> None:
        """Looks at the constructor of DDP, and at gradients before the first step of all."""
        if torch.distributed.is_available():
            from torch.nn.parallel import DistributedDataParallel

            seam(DistributedDataParallel, "__init__").after(self._notebook, self._made)
            step_hooks.before(self._notebook, self._unused_parameters)

    def _made(self, args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        self._wrappers.append(weakref.ref(receiver(args, kwargs)))

    def _unused_parameters(self, *args: Any) -> None:
        if not self._looked and self._wrappers:
            self._looked = True
            self.names = tuple(self._without_gradient())[:MOST_NAMES]

    def _without_gradient(self) -> list[str]:
        modules = [wrapper() for wrapper in self._wrappers]
        return [
            name
            for module in modules
            if module is not None
            for name, parameter in module.module.named_parameters()
            if parameter.requires_grad and parameter.grad is None
        ]
