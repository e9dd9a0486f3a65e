"""Notes when a tensor of a device is read into the host, which waits for everything the device has to do.

A read by a library on the script's behalf (printing a tensor, a metric) is noted as such: `item, indirect`.
"""

import functools
import os
import sys
from collections.abc import Callable
from time import perf_counter_ns
from types import FrameType, FunctionType
from typing import Any

import torch

from scalewise.records.notes import INDIRECT
from scalewise.watch import redirect
from scalewise.watch.call_arguments import receiver
from scalewise.watch.examination.notebook import Notebook

CALLS = ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__", "__index__", "__format__", "__repr__")
_WARNING = ("item", "__bool__", "__float__", "__int__", "__index__")  # of tensors that require a gradient
_WATCHER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def install(notebook: Notebook) -> None:
    """Wraps the methods that read, if there is a GPU or a stand-in: elsewhere nothing runs behind the host."""
    if redirect.is_on():
        on_device: Callable[[Any], bool] = redirect.believed_on_gpu
    elif torch.version.cuda is not None or torch.version.hip is not None:
        on_device = _is_cuda
    else:
        return
    reads = _Reads(notebook, on_device)
    for name in (*CALLS, "to"):
        setattr(torch.Tensor, name, reads.noted(name))


def _is_cuda(tensor: Any) -> bool:
    return bool(tensor.is_cuda)


class _Reads:
    """The wrappers of methods that read a tensor; a read that is made of other reads counts once."""

    def __init__(self, notebook: Notebook, on_device: Callable[[Any], bool]) -> None:
        self._notebook, self._on_device = notebook, on_device
        self._inside = False

    def noted(self, name: str) -> Callable[..., Any]:
        """The method, with a note when it reads what is on the device."""
        original = getattr(torch.Tensor, name)
        notebook, on_device = self._notebook, self._on_device

        @functools.wraps(original)
        def noted(*args: Any, **kwargs: Any) -> Any:
            tensor = receiver(args, kwargs)
            frame = sys._getframe(1)
            caller, method = frame.f_code, original
            if name in _WARNING and tensor.requires_grad:
                method = _in_the_name_of(frame, original)
            if self._inside or caller.co_filename.startswith(_WATCHER) or not (notebook.on and on_device(tensor)):
                return method(*args, **kwargs)
            self._inside = True
            began_ns = perf_counter_ns()
            try:
                result = method(*args, **kwargs)
            finally:
                self._inside = False
            wait_ns = perf_counter_ns() - began_ns
            if name != "to" or not (on_device(result) or asked_not_to_wait(args, kwargs)):
                by = "" if notebook.places.of_user(caller) else str(frame.f_globals.get("__name__", "a library"))
                notebook.note("host_read", f"{name.strip('_')}{INDIRECT if by else ''}", "cuda", wait_ns, by)
            return result

        return noted


def asked_not_to_wait(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
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
