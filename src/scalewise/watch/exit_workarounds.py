"""Ends a forked rank without the deadlock that torch's gloo groups are prone to, and without needless work.

The thread of a gloo group drops the last all-reduce of a backward pass, and with it a Python object, for which it must
hold the GIL (torch 2.13). A script that ends right after its last step destroys the group while holding the GIL and
waits for that thread for ever; or the interpreter shuts down first and the thread aborts the process. Preloaded modules
make the first more likely: imported lazily, some would have kept the group alive. So groups are kept until the
interpreter ends, and the thread is given time to run before.

What the server has preloaded is the same in every rank, and taking it apart takes longer than a short run. The script,
its own modules and its exit handlers end as usual; preloaded modules and the static objects of their libraries are left
to the kernel.
"""

import atexit
import ctypes
import sys
import time
import weakref
from types import ModuleType
from typing import Any

from scalewise.watch.seams import seam

_DRAIN_SECONDS = 0.01
_kept: list[Any] = []


def keep_groups_until_exit() -> None:
    """Keeps process groups until exit; called before the script, so that the script's own exit handlers run first."""
    import torch.distributed as dist

    if not dist.is_available():
        return

    def destroy(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        _kept.extend(_groups())
        return call(*args, **kwargs)

    seam(dist, "destroy_process_group", also=[dist.distributed_c10d]).around(destroy)
    atexit.register(_leave)


def _leave() -> None:
    if _kept or _groups():
        time.sleep(_DRAIN_SECONDS)
        _kept.clear()


def _groups() -> list[Any]:
    """All process groups; the table is private to torch, and without it there is nothing to keep."""
    import torch.distributed as dist

    world = getattr(dist.distributed_c10d, "_world", None)
    return list(getattr(world, "pg_map", ()))


def spare_modules_at_exit() -> dict[str, ModuleType]:
    """Keeps preloaded modules from being taken apart at exit; returns the table to fill with them.

    It must be called before any import that may register an exit handler.
    """
    spared: dict[str, ModuleType] = {}
    atexit.register(_spare, spared)
    return spared


def _spare(spared: dict[str, ModuleType]) -> None:
    for name, module in spared.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(spared))


def spare_finalizers_at_exit() -> None:
    """Switches off finalizers that preloaded modules have registered for exit (torch: for every registered kernel)."""
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        finalizer.atexit = False


def spare_libraries_at_exit() -> None:
    """Ends the process after Python's own shutdown, with C output flushed, before the libraries' destructors.

    It must be called when they are loaded: the destructors of libraries that the script loads later still run.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit") and hasattr(libc, "__cxa_atexit"):
        # The last one registered is called first: a flush of every stream, then _exit with the status given to exit.
        libc.on_exit(libc._exit, None)
        getattr(libc, "__cxa_atexit")(libc.fflush, None, None)
