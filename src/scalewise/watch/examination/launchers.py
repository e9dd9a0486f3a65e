"""Notes a script that starts its ranks itself, which torchrun has done already or need not do."""

import functools
import sys
from typing import Any

import torch.multiprocessing as processes

from scalewise.records.examination import LauncherRow
from scalewise.watch.examination.notebook import Notebook


def install(notebook: Notebook) -> None:
    """Wraps the one function that `mp.spawn` comes down to."""
    module: Any = sys.modules["torch.multiprocessing.spawn"]
    original = module.start_processes

    @functools.wraps(original)
    def start_processes(
        fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, daemon: bool = False, *rest: Any, **options: Any
    ) -> Any:
        try:
            method = options.get("start_method", rest[0] if rest else "spawn")
            notebook.row(LauncherRow(notebook.places.here(), nprocs, method == "fork"))
            notebook.write()
        except Exception as error:
            notebook.broke("mp.spawn", error)
        return original(fn, args, nprocs, join, daemon, *rest, **options)

    module.start_processes = vars(processes)["start_processes"] = start_processes
