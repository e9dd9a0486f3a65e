"""Lets a rank leave its process groups without the deadlock that torch's gloo groups are prone to.

The thread of a gloo group drops the last all-reduce of a backward pass, and with it a Python object, for which it must
hold the GIL (torch 2.13). A script that ends right after its last step destroys the group while holding the GIL and
waits for that thread for ever; or the interpreter shuts down first and the thread aborts the process. Preloaded
modules make the first more likely: imported lazily, some would have kept the group alive. So groups are kept until
the interpreter ends, and the thread gets its turn before.
"""

import atexit
import functools
import time
from typing import Any

_DRAIN_SECONDS = 0.01
_kept: list[Any] = []


def keep_groups_until_exit() -> None:
    """Call it before the script, so that the script's own exit handlers run first."""
    import torch.distributed as dist

    if not dist.is_available():
        return
    destroy = dist.destroy_process_group

    @functools.wraps(destroy)
    def destroy_process_group(*arguments: Any, **options: Any) -> Any:
        _kept.extend(_groups())
        return destroy(*arguments, **options)

    dist.destroy_process_group = destroy_process_group
    dist.distributed_c10d.destroy_process_group = destroy_process_group
    atexit.register(_leave)


def _leave() -> None:
    if _kept or _groups():
        time.sleep(_DRAIN_SECONDS)
        _kept.clear()


def _groups() -> list[Any]:
    """Every group there is; the table is private to torch, and without it there is nothing to keep."""
    import torch.distributed as dist

    world = getattr(dist.distributed_c10d, "_world", None)
    return list(getattr(world, "pg_map", ()))
