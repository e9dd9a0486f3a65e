"""Notes when the process group is made and destroyed."""

import functools
import sys
from typing import Any

import torch.distributed as dist

from scalewise.watch.examination.notebook import Notebook


def install(notebook: Notebook) -> None:
    """Wraps both functions where torch.distributed has bound them; notes the group of all ranks only."""
    begin, end = dist.init_process_group, dist.destroy_process_group

    @functools.wraps(begin)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = begin(*args, **kwargs)
        _note(notebook, "init")
        return result

    @functools.wraps(end)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        group = args[0] if args else kwargs.get("group")
        if group is None or group is dist.group.WORLD:
            _note(notebook, "destroy")
        return end(*args, **kwargs)

    for name in ("torch.distributed", "torch.distributed.distributed_c10d"):
        vars(sys.modules[name]).update(
            init_process_group=init_process_group, destroy_process_group=destroy_process_group
        )


def _note(notebook: Notebook, event: str) -> None:
    try:
        if notebook.on and dist.is_initialized():
            notebook.note("group", event, dist.get_backend(), dist.get_world_size())
    except Exception as error:
        notebook.broke("process group", error)
