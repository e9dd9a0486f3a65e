"""Notes a script that starts its ranks itself, which torchrun has done already or could do for it."""

import functools
import sys
from typing import Any

import torch.multiprocessing as processes

from scalewise.records.examination import LauncherRow
from scalewise.watch.call_arguments import Argument
from scalewise.watch.examination.notebook import Notebook


def install(notebook: Notebook) -> None:
    """Wraps the one function that every `mp.spawn` ends in."""
    module: Any = sys.modules["torch.multiprocessing.spawn"]
    original = module.start_processes
    nprocs, start_method = Argument(original, "nprocs"), Argument(original, "start_method")

    @functools.wraps(original)
    def start_processes(*args: Any, **kwargs: Any) -> Any:
        try:
            forked = start_method.of(args, kwargs, "spawn") == "fork"
            notebook.row(LauncherRow(notebook.places.here(), nprocs.of(args, kwargs, 1), forked))
            notebook.write()
        except Exception as error:
            notebook.broke("mp.spawn", error)
        return original(*args, **kwargs)

    module.start_processes = vars(processes)["start_processes"] = start_processes
