"""Makes tensors meant for a GPU where they really lie, and copies them where a move would have copied.

What is loaded for a GPU is loaded to where it really lies, and the script believes it on the GPU.
"""

import contextlib
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode

from scalewise.records.inspection import LOGICAL_PREFIX
from scalewise.watch.redirect.redirected_calls import RedirectedCalls, asked_inside
from scalewise.watch.redirect.virtual_device import VirtualTensors, gpu_index, is_host
from scalewise.watch.seams import seam, seams

_Tensor: Any = torch.Tensor
_Call = Callable[..., Any]
_MOST_DEEP = 6  # levels of dictionaries in a checkpoint
_COPY = 4  # place of `copy` among the arguments of Tensor.to(device, dtype, non_blocking, copy)


def install(calls: RedirectedCalls, virtual: VirtualTensors) -> None:
    """Watches every torch function from now on, for good."""
    mode: Any = Redirection(calls, virtual)
    mode.__enter__()
    _keep_in_threads(mode)
    _keep_in_backward(mode, virtual)
    # As a torch function it would insist on a real stream.
    seam(_Tensor, "record_stream").replace(lambda self, stream: None)
    _redirect_generator(calls, virtual)
    _redirect_load(calls, virtual)


class Redirection(TorchFunctionMode):
    """A mode that looks at the arguments of every torch function for a device."""

    def __init__(self, calls: RedirectedCalls, virtual: VirtualTensors) -> None:
        super().__init__()
        self._calls = calls
        self._virtual = virtual
        self._special: dict[Any, _Call] = {
            _Tensor.to: self._to,
            _Tensor.cuda: self._cuda,
            _Tensor.cpu: self._cpu,
            _Tensor.pin_memory: lambda func, args, kwargs: _Tensor.clone(args[0]),
            _Tensor.device.__get__: functools.partial(self._say, lambda place: torch.device("cuda", place)),
            _Tensor.is_cuda.__get__: functools.partial(self._say, lambda place: True),
            _Tensor.is_cpu.__get__: functools.partial(self._say, lambda place: False),
            _Tensor.get_device: functools.partial(self._say, lambda place: place),
        }
        self._copies = {torch.as_tensor, torch.asarray}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls the function where the tensors really are."""
        # torch passes the method that is in the class now, which may be another hook around its own.
        special = self._special.get(func) or self._special.get(getattr(func, "__wrapped__", None))
        if special is not None:
            return special(func, args, kwargs or {})
        if not kwargs:  # by far the most common: attributes of tensors, of which an optimizer asks hundreds
            result = func(*args)
            if result is not None and type(result) is not bool:
                self._virtual.pass_on(result, args, {})
            return result
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        if kwargs.get("device") is not None:
            return self._made(func, args, kwargs)
        result = func(*args, **kwargs)
        self._virtual.pass_on(result, args, kwargs)
        return result

    def _made(self, func: _Call, args: Any, kwargs: Any) -> Any:
        """Calls a function that makes a tensor on a given device."""
        place = self._index(kwargs["device"])
        if place is None:
            return func(*args, **kwargs)
        self._calls.redirect(f"torch.{getattr(func, '__name__', func)}")
        result = func(*args, **{**kwargs, "device": self._virtual.real})
        if func in self._copies:
            result = result.clone()  # what lies on the host would have been copied to the device
        if isinstance(result, torch.Tensor):
            self._virtual.put(result, place)
        return result

    def _to(self, func: _Call, args: Any, kwargs: Any) -> Any:
        """Calls `to`: a move, or a change of dtype alone."""
        device = kwargs.get("device", args[1] if len(args) > 1 else kwargs.get("other"))
        if isinstance(device, torch.Tensor):
            return self._moved(func, args, kwargs, self._virtual.place(device))
        place = self._index(device)
        if place is None and not is_host(device):
            result = func(*args, **kwargs)
            self._virtual.pass_on(result, args[:1], {})
            return result
        real = self._really(place)
        if "device" in kwargs:
            kwargs = {**kwargs, "device": real}
        else:
            args = (args[0], real, *args[2:])
        return self._moved(func, args, kwargs, place)

    def _cuda(self, func: _Call, args: Any, kwargs: Any) -> Any:
        device = kwargs.get("device", args[1] if len(args) > 1 else None)
        place = self._index("cuda" if device is None else device)
        return self._moved(_Tensor.to, (args[0], self._really(place)), {}, place)

    def _cpu(self, func: _Call, args: Any, kwargs: Any) -> Any:
        return self._moved(_Tensor.to, (args[0], "cpu"), kwargs, None)

    def _moved(self, func: _Call, args: Any, kwargs: Any, place: int | None) -> Any:
        """A tensor on another device, which is always a new one."""
        here = self._virtual.place(args[0])
        if self._virtual.held is not None and here is not None and place is not None and place != here:
            from scalewise.watch.redirect.tensors import moved

            args = (moved(args[0], here, place, self._virtual.put), *args[1:])  # what is left may change the dtype
        elif place != here:
            args, kwargs = args[:_COPY], {**kwargs, "copy": True}
        if place is not None:
            self._calls.redirect("Tensor.to")
        result = func(*args, **kwargs)
        if place is not None:
            self._virtual.put(result, place)
        return result

    def _really(self, place: int | None) -> str:
        """The real device for a tensor of this place."""
        return "cpu" if place is None else self._virtual.real

    def _say(self, words: _Call, func: _Call, args: Any, kwargs: Any) -> Any:
        """The answer that a GPU's tensor would give the script; torch itself gets the true one."""
        place = self._virtual.place(args[0])
        if place is None or asked_inside(sys._getframe(2).f_code):
            return func(*args, **kwargs)
        return words(place)

    def _index(self, device: Any) -> int | None:
        place = gpu_index(device, self._virtual.current)
        if place is not None:
            self._calls.ask(f"cuda:{device}" if isinstance(device, int) else str(device))
        return place


def _keep_in_threads(mode: Any) -> None:
    """Enters the mode in threads that the script starts as well, as a mode is only for its own thread."""

    def start(call: Any, self: threading.Thread) -> None:
        with mode:
            call(self)

    for one in seams(threading.Thread, ("_bootstrap_inner",)).values():
        one.around(start)


class Counting(TorchDispatchMode):
    """A mode that enters what a backward pass makes, which no torch function shows, to count its memory."""

    def __init__(self, virtual: VirtualTensors) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._virtual = virtual

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Passes the operation on as it is."""
        result = func(*args, **(kwargs or {}))
        if func.namespace == LOGICAL_PREFIX.rstrip(":"):
            self._virtual.put(result, int(args[2].removeprefix(LOGICAL_PREFIX)))
        else:
            self._virtual.pass_on(result, args, kwargs or {})
        return result


def _keep_in_backward(mode: Any, virtual: VirtualTensors) -> None:
    """Keeps the mode on during backward, a torch function without modes that calls the script's own hooks."""
    counting: Any = Counting(virtual)

    def run_backward(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as modes:
            if mode not in _get_current_function_mode_stack():
                modes.enter_context(mode)
            # Looking into a pass takes time, so it is done only for passes that may hold more than all before.
            if virtual.held is not None and virtual.held.is_larger_pass():
                modes.enter_context(counting)
            return call(*args, **kwargs)

    def backward(
        call: Any,
        self: torch.Tensor,
        gradient: Any = None,
        retain_graph: Any = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> Any:
        if type(self) is not torch.Tensor:
            return call(self, gradient, retain_graph, create_graph, inputs=inputs)
        return torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    seam(_Tensor, "backward").around(backward)
    for one in seams(torch.autograd, ("_engine_run_backward",)).values():
        one.around(run_backward)


def _redirect_generator(calls: RedirectedCalls, virtual: VirtualTensors) -> None:
    original: Any = torch.Generator

    class Generator(original):  # type: ignore[misc]
        """A generator that lies on the CPU if it is meant for a GPU."""

        def __new__(cls, device: Any = "cpu") -> Any:
            """Makes a generator as torch's own class does, but on the real device."""
            if gpu_index(device, virtual.current) is None:
                return super().__new__(cls, device)
            calls.ask(str(device))
            calls.redirect("torch.Generator")
            return super().__new__(cls, virtual.real)

    Generator.__module__, Generator.__qualname__ = "torch", "Generator"
    torch.Generator = Generator  # type: ignore[misc]


def _redirect_load(calls: RedirectedCalls, virtual: VirtualTensors) -> None:
    """Redirects `torch.load`, and the method by which a function as `map_location` moves a storage."""

    def load(call: Any, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        place = gpu_index(map_location, virtual.current)
        if isinstance(map_location, dict):
            # No checkpoint saved under redirection names a GPU, but a cluster's does.
            map_location = dict.fromkeys(map_location, virtual.real)
        elif place is not None:
            map_location = virtual.real
        else:
            return call(f, _from_gpus_to_cpu if map_location is None else map_location, *args, **kwargs)
        calls.redirect("torch.load")
        loaded = call(f, map_location, *args, **kwargs)
        if place is not None:
            calls.ask(f"cuda:{place}")
            _put_all(loaded, place, virtual, _MOST_DEEP)
        return loaded

    seam(torch, "load").around(load)
    if virtual.real == "cpu":
        seam(torch.UntypedStorage, "cuda").replace(lambda self, *args, **kwargs: self)


def _from_gpus_to_cpu(storage: Any, location: str) -> Any:
    return storage if location.startswith("cuda") else None


def _put_all(value: Any, place: int, virtual: VirtualTensors, deep: int) -> None:
    if isinstance(value, torch.Tensor):
        virtual.put(value, place)
    elif deep and isinstance(value, (dict, list, tuple)):
        for one in value.values() if isinstance(value, dict) else value:
            _put_all(one, place, virtual, deep - 1)


_LIBRARY = torch.library.Library(LOGICAL_PREFIX.rstrip(":"), "DEF")  # exists as long as its operators are needed
_LIBRARY.define("move(Tensor x, str source, str target) -> Tensor")
_LIBRARY.impl("move", lambda x, source, target: x.clone(), "CompositeExplicitAutograd")


def name_of(place: int) -> str:
    """The name of the stand-in for this GPU in records."""
    return f"{LOGICAL_PREFIX}{place}"


def moved(x: torch.Tensor, source: int, target: int, put: Callable[[torch.Tensor, int], None]) -> torch.Tensor:
    """A copy on the other device; its gradient is copied back. `put` notes where each copy lies."""
    return _Move.apply(x, source, target, put)  # type: ignore[no-any-return, no-untyped-call]


class _Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, source: int, target: int, put: Any) -> torch.Tensor:
        ctx.way = source, target, put
        with torch._C.DisableTorchFunction():  # what is computed from a tensor is believed to lie beside it; not this
            result: torch.Tensor = torch.ops.logical.move(x, name_of(source), name_of(target))
        put(result, target)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        source, target, put = ctx.way
        return _Move.apply(gradient, target, source, put), None, None, None  # type: ignore[no-untyped-call]
