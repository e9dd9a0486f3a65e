"""Ends a forked rank without the deadlock that torch's gloo groups are prone to, and without needless work.

The thread of a gloo group drops the last all-reduce of a backward pass, and with it a Python object, for which it must
hold the GIL (torch 2.13). A script that ends right after its last step destroys the group while holding the GIL and
waits for that thread for ever; or the interpreter shuts down first and the thread aborts the process. Preloaded modules
make the first more likely: imported lazily, some would have kept the group alive. So groups are kept until the
interpreter ends, and the thread is given time to run before.

What the server has preloaded is the same in every rank, and taking it apart takes longer than a short run. The script,
its own modules and its exit handlers end as usual; preloaded modules, the static objects of their libraries, and the
interpreter itself are left to the kernel.
"""

import atexit
import ctypes
import gc
import sys
import time
import weakref
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from scalewise.watch.seams import seam

_DRAIN_SECONDS = 0.01
_kept: list[Any] = []
_status: int | None = None  # with which the script ends; None: not known
_collect = gc.collect  # itself: an examination looks at who calls it


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
    own = (sys.__stdout__, sys.__stderr__)  # a script's own streams are flushed by Python, as often as it does that
    if _status is not None and (sys.stdout, sys.stderr) == own and _flush(own):
        setattr(sys, _Last.__name__, _Last(_status))


def script_ends(code: object) -> None:
    """Notes how the script ends: the code that it has given to `sys.exit`, None for its last line, 1 for an error."""
    global _status
    known = code is None or (isinstance(code, int) and abs(code) < 2**31)
    _status = (int(code) if isinstance(code, int) else 0) if known else 1


class _Last:
    """The last thing in `sys`, which Python takes apart when the script and all its modules have ended.

    What Python would do after that is seen by nobody: it writes into each interned string, and so copies half of the
    server's memory (12,000 pages, 45 ms).
    """

    def __init__(self, status: int) -> None:
        self._status, self._collect, self._exit = status, _collect, ctypes.PyDLL(None).exit
        self._flush, self._streams = _flush, (sys.__stdout__, sys.__stderr__)

    def __del__(self) -> None:
        self._collect()
        self._flush(self._streams)  # destructors may have printed
        self._exit(self._status)  # of the C library: what was registered there is still called


def _flush(streams: Iterable[Any]) -> bool:
    """Flushes streams; False if that fails, which Python itself tells by an exit code."""
    try:
        for stream in streams:
            if stream is not None and not stream.closed:
                stream.flush()
    except BaseException:
        return False
    return True


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
