"""Notes what goes between the host and a device: reads of tensors, which wait for all it has to do, and copies to it.

A read by a library on the script's behalf (printing a tensor, a metric) is noted as such: `item, indirect`. Of a copy
it notes how large it is, from pinned memory or not, and how often the same values were copied before. What a redirected
script has asked of devices is written, too.
"""

import os
from collections.abc import Callable
from time import perf_counter_ns
from types import FrameType, FunctionType
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from scalewise.records.notes import INDIRECT
from scalewise.watch import redirect
from scalewise.watch.call_arguments import receiver
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.tensors import ordinary
from scalewise.watch.seams import Given, Looks, Outermost, caller, seams

READS = ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__", "__index__", "__format__", "__repr__")
COPIES = ("to", "cuda", "copy_")
MOST_KNOWN = 512  # storages that are remembered; those that are gone are forgotten first
_WARNING = ("item", "__bool__", "__float__", "__int__", "__index__")  # of tensors that require a gradient
_WATCHER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def install(notebook: Notebook) -> None:
    """Looks at the methods that read and copy, if there is a GPU or a stand-in: elsewhere nothing runs behind the host.

    A script that is not redirected gives no rows on the devices that it has asked for.
    """
    redirect.tell(notebook.row)
    if redirect.is_on():
        on_device: Callable[[Any], bool] = redirect.believed_on_gpu
    elif torch.version.cuda is not None or torch.version.hip is not None:
        on_device = _is_cuda
    else:
        return
    reads, copies = HostReads(notebook, on_device), DeviceCopies(notebook, on_device, real=not redirect.is_on())
    methods = seams(torch.Tensor, (*READS, *COPIES))
    for name in READS:
        methods[name].around(reads.noted(name))
    outermost = Outermost()  # one may call another, and both are then one copy
    for name in COPIES:
        methods[name].during(notebook, copies.noted(name), outermost)


def _is_cuda(tensor: Any) -> bool:
    return bool(tensor.is_cuda)


class HostReads:
    """The look at methods that read a tensor; a read that is made of other reads counts once."""

    def __init__(self, notebook: Notebook, on_device: Callable[[Any], bool]) -> None:
        self._notebook, self._on_device = notebook, on_device
        self._inside = False

    def noted(self, name: str) -> Callable[..., Any]:
        """Makes what lies around the method: a note when it reads what is on the device."""
        notebook, on_device = self._notebook, self._on_device

        def read(call: Any, /, *args: Any, **kwargs: Any) -> Any:
            tensor = receiver(args, kwargs)
            frame = caller()
            code, method = frame.f_code, call
            if name in _WARNING and tensor.requires_grad:
                method = _in_the_name_of(frame, call)
            if self._inside or code.co_filename.startswith(_WATCHER) or not (notebook.on and on_device(tensor)):
                return method(*args, **kwargs)
            self._inside = True
            began_ns = perf_counter_ns()
            try:
                result = method(*args, **kwargs)
            finally:
                self._inside = False
            wait_ns = perf_counter_ns() - began_ns
            by = "" if notebook.places.of_user(code) else str(frame.f_globals.get("__name__", "a library"))
            notebook.note("host_read", f"{name.strip('_')}{INDIRECT if by else ''}", "cuda", wait_ns, by)
            return result

        return read


def asked_not_to_wait(args: tuple[Any, ...], kwargs: Given) -> bool:
    """Returns whether a call of `to`, `cuda` or `copy_` asked not to wait: `non_blocking` is always the first flag."""
    return bool(next((one for one in args if isinstance(one, bool)), kwargs.get("non_blocking")))


def _in_the_name_of(frame: FrameType, original: Callable[..., Any]) -> Callable[..., Any]:
    """The method, called as if from that line: torch's warnings name the innermost one, and it must be the script's."""

    def made(method: Any) -> Any:
        return lambda *args, **kwargs: method(*args, **kwargs)

    inner = made(original)
    code = inner.__code__.replace(co_filename=frame.f_code.co_filename, co_firstlineno=frame.f_lineno)
    called = FunctionType(code, frame.f_globals, inner.__name__, None, inner.__closure__)

    def without_a_trace(*args: Any, **kwargs: Any) -> Any:
        try:
            return called(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = None  # removes a frame that only looks like the script's
            raise

    return without_a_trace


class DeviceCopies:
    """The look at methods that move a tensor."""

    def __init__(self, notebook: Notebook, on_device: Callable[[Any], bool], real: bool) -> None:
        self._notebook, self._on_device, self._real = notebook, on_device, real
        self._known: dict[tuple[Any, ...], tuple[StorageWeakRef, int]] = {}

    def noted(self, name: str) -> Callable[[tuple[Any, ...], Given], Looks]:
        """Makes what looks at the method, with a note when its result is on the device and what it copied was not."""

        def copies(args: tuple[Any, ...], kwargs: Given) -> Looks:
            began_ns = perf_counter_ns()
            result = yield
            lasted_ns = perf_counter_ns() - began_ns
            tensor, *rest = args or (kwargs["self"],)
            source = tensor if name != "copy_" else rest[0] if rest else kwargs["other"]
            if isinstance(source, torch.Tensor) and self._on_device(result) and not self._on_device(source):
                self._note(name, source, asked_not_to_wait(tuple(rest), kwargs), lasted_ns)

        return copies

    def _note(self, name: str, source: torch.Tensor, non_blocking: bool, lasted_ns: int) -> None:
        if not ordinary(source) or source.device.type != "cpu":
            return
        size = source.numel() * source.element_size()
        pinned = source.is_pinned() if self._real else None
        self._notebook.note("copy", name, size, pinned, non_blocking, lasted_ns, self._times_before(source))

    def _times_before(self, source: torch.Tensor) -> int:
        """The number of earlier copies of the same values: the same memory, still held by the script, not changed."""
        if source.is_inference():
            return 0
        storage = source.untyped_storage()
        key = (storage._cdata, source.storage_offset(), tuple(source.shape), source.dtype, source._version)
        known = self._known.get(key)
        if known is not None and not known[0].expired():
            self._known[key] = (known[0], known[1] + 1)
            return known[1]
        if len(self._known) >= MOST_KNOWN:
            self._known = {one: held for one, held in self._known.items() if not held[0].expired()}
        if len(self._known) < MOST_KNOWN:
            self._known[key] = (StorageWeakRef(storage), 1)
        return 0
