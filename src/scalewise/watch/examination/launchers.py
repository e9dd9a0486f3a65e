"""Notes a script that starts its ranks itself although each of its processes is a rank already."""

import functools
import os
import sys
from typing import Any

import torch.multiprocessing as processes

from scalewise.records.examination import LauncherRow
from scalewise.watch.examination.notebook import Notebook


def install(notebook: Notebook) -> None:
    """Wraps the one function that `mp.spawn` comes down to; a plain process may start as many as it likes."""
    if "RANK" not in os.environ or "LOCAL_RANK" not in os.environ:
        return
    module: Any = sys.modules["torch.multiprocessing.spawn"]
    original = module.start_processes

    @functools.wraps(original)
    def start_processes(fn: Any, args: Any = (), nprocs: int = 1, *rest: Any, **options: Any) -> Any:
        try:
            notebook.row(LauncherRow(notebook.places.here(), nprocs))
            notebook.write()
        except Exception as error:
            notebook.broke("mp.spawn", error)
        return original(fn, args, nprocs, *rest, **options)

    module.start_processes = vars(processes)["start_processes"] = start_processes
