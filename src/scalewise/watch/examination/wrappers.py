"""Tracks the wrappers of a model (DDP, DataParallel, FSDP): which one a call went through, and if it synchronises.

Of DDP it also notes the buckets, the parameters that no gradient reaches, and the buffers that really change.
"""

import atexit
import contextlib
import functools
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from scalewise.records.examination import WrapperRow, WrapperUseRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.call_arguments import receiver
from scalewise.watch.examination.loop import Loop, loop_of, sampled
from scalewise.watch.examination.notebook import Notebook, ObjectNumbers
from scalewise.watch.examination.tensors import number, ordinary, quietly
from scalewise.watch.seams import Given, Looks, seam
from scalewise.watch.wrappers import inner_of, kind_of, kinds

WINDOWS_LOOKED_AT = 48  # for parameters without gradient
BUFFER_CHECKS = 12


class Wrappers:
    """The wrappers made so far, and the modules inside them."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._numbers, self._inner = ObjectNumbers(), ObjectNumbers()
        self._made: list[weakref.ref[Any]] = []
        self._sharded_in: weakref.WeakKeyDictionary[nn.Module, weakref.ref[nn.Module] | None]
        self._sharded_in = weakref.WeakKeyDictionary()

    def index_of(self, wrapper: nn.Module) -> int:
        """The number of a wrapper, which is described when it is new."""
        number = self._numbers.of(wrapper)
        if number is None:
            number = self._numbers.give(wrapper)
            self._made.append(weakref.ref(wrapper))
            inner = inner_of(wrapper)
            for module in inner.modules() if inner is not None else ():
                self._inner.give(module, number)
            self._loop.notebook.row(_describe(number, wrapper, self._loop.notebook.places.here()))
        return number

    def any(self) -> bool:
        """Returns whether any wrapper was ever made."""
        return bool(self._made)

    def reduced(self) -> list[tuple[int, Any]]:
        """The wrappers with a reducer that still exist, with their numbers: all their ranks hold all parameters."""
        found = ((index, held()) for index, held in enumerate(self._made))
        return [(index, one) for index, one in found if (kind := kind_of(one)) and kind.exchange == "reducer"]

    def called(self, module: nn.Module) -> tuple[int, bool]:
        """The wrapper that a module called from outside is, and whether it will synchronise.

        A wrapper with a reducer is noted when its own forward pass is called, maybe from inside another module.
        """
        module = getattr(module, "_orig_mod", module)
        found, kind = module, kind_of(module)
        if kind is None or kind.exchange == "reducer":
            shard = self._shard_in(module)
            if shard is None:
                return NOWHERE, False
            found, kind = shard, kind_of(shard)
        return self.index_of(found), kind is None or kind.synchronises(found)

    def _shard_in(self, module: nn.Module) -> nn.Module | None:
        """The first sharded module inside one that is not sharded itself: layers may be sharded one by one."""
        if module not in self._sharded_in:
            sharded = (one for one in module.modules() if (kind := kind_of(one)) and kind.exchange == "shards")
            found = next(sharded, None)
            self._sharded_in[module] = None if found is None else weakref.ref(found)
        held = self._sharded_in[module]
        return None if held is None else held()

    def bypassed_by(self, module: nn.Module) -> int:
        """The number of the wrapper that has this module inside it; NOWHERE if there is none."""
        number = self._inner.of(module)
        if number is None:
            number = self._inner.of(getattr(module, "_orig_mod", None))
        return NOWHERE if number is None else number


@functools.cache
def wrappers_of(notebook: Notebook) -> Wrappers:
    """The one registry of a notebook's process."""
    return Wrappers(loop_of(notebook))


def install(notebook: Notebook) -> None:
    """Looks at the construction of wrappers, and at forward and no_sync of DDP; FSDP is found when it is called."""
    wrappers = wrappers_of(notebook)

    def made(args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        wrappers.index_of(receiver(args, kwargs))

    for kind in kinds():
        owner, _, name = kind.made.rpartition(".")
        for wrapper_class in [getattr(sys.modules[owner], name, None)] if owner else []:
            if wrapper_class is None:
                continue  # a torch that was built without distributed
            seam(wrapper_class, "__init__").after(notebook, made)
            if kind.exchange == "reducer":
                _see_called(notebook, wrappers, wrapper_class)
                _see_no_sync(notebook, wrappers, wrapper_class)


def _see_called(notebook: Notebook, wrappers: Wrappers, kind: Any) -> None:
    """Notes the wrapper for the outermost call: DDP may be called itself or from inside a module of the user's."""
    loop = loop_of(notebook)
    uses = _Uses(loop)

    def forward(args: tuple[Any, ...], kwargs: Given) -> Looks:
        wrapper = receiver(args, kwargs)
        index = wrappers.index_of(wrapper)
        use = uses.of(index, wrapper)
        loop.wrapper, loop.sync = index, bool(wrapper.require_backward_grad_sync)
        loop.in_wrapper += 1
        try:
            yield
        finally:
            loop.in_wrapper -= 1
        if use is not None:
            use.after_forward(wrapper)

    seam(kind, "forward").during(notebook, forward)


def _see_no_sync(notebook: Notebook, wrappers: Wrappers, kind: Any) -> None:
    @contextlib.contextmanager
    def noted(call: Any, wrapper: Any) -> Iterator[None]:
        if notebook.on:
            try:
                notebook.note("no_sync", wrappers.index_of(wrapper))
            except Exception as error:
                notebook.broke("no_sync", error)
        with call(wrapper):
            yield

    def no_sync(call: Any, self: Any) -> Any:
        return noted(call, self)

    seam(kind, "no_sync").around(no_sync)


def _describe(index: int, wrapper: nn.Module, place: int) -> WrapperRow:
    kind = kind_of(wrapper)
    parameters = [getattr(one, "_local_tensor", one) for one in wrapper.parameters()]
    device = parameters[0].device if parameters else torch.device("cpu")
    batch_norms = (m for m in wrapper.modules() if isinstance(m, nn.modules.batchnorm._NormBase))
    return WrapperRow(
        index=index,
        wrapper=type(wrapper).__name__ if kind is None else kind.name,
        place=place,
        device=str(device),
        gpu=_identity(device),
        parameter_bytes=_bytes(parameters),
        buffer_bytes=_bytes(list(wrapper.buffers())),
        batch_norms=sum(bool(one.track_running_stats) for one in batch_norms),
        ranks=() if kind is None else kind.ranks(wrapper),
        options={} if kind is None else kind.options_of(wrapper),
    )


def _identity(device: torch.device) -> str:
    """The identity of the GPU itself, not its number among those this process may see."""
    if device.type != "cuda":
        return ""
    return str(torch.cuda.get_device_properties(device).uuid)


def _bytes(tensors: list[torch.Tensor]) -> int:
    return sum(one.numel() * one.element_size() for one in tensors)


# ---- how a DDP is used


class _Uses:
    """The uses of all wrappers, told of each step and of the end."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._of: dict[int, _Use] = {}
        loop.after_step.append(self._after_step)
        loop.unreached = lambda: {name for use in self._of.values() for name in use.unreached()}
        atexit.register(self._at_end)

    def of(self, index: int, wrapper: Any) -> "_Use | None":
        """The use of a wrapper that has been called to train; None before that."""
        if index not in self._of and _trains(wrapper):
            self._of[index] = _Use(self._loop, index, wrapper)
        return self._of.get(index)

    def _after_step(self, step: int) -> None:
        for use in self._of.values():
            use.after_step(step)

    def _at_end(self) -> None:
        for use in self._of.values() if self._loop.notebook.on else ():
            use.tell(self._loop.windows)


def _trains(module: Any) -> bool:
    return bool(module.training and torch.is_grad_enabled() and not torch.is_inference_mode_enabled())


class _Use:
    """The facts seen about one wrapper's use."""

    def __init__(self, loop: Loop, index: int, ddp: Any) -> None:
        self._loop, self._index = loop, index
        self._ddp = weakref.ref(ddp)
        self._names = [name for name, one in ddp.module.named_parameters() if one.requires_grad]
        self._reached: set[str] = set()
        self._without: dict[str, int] = {}
        self._windows = 0
        self._buckets: tuple[int, ...] = ()
        self._buffers: list[float] | None = None
        self._changed = self._checks = 0
        self._handles: list[Any] = []
        for name, one in ddp.module.named_parameters():
            if one.requires_grad and ordinary(one):
                self._listen(name, one)

    def _listen(self, name: str, parameter: torch.Tensor) -> None:
        """Listens at the node that adds to a gradient: DDP's own averaging fills gradients that this rank lacks."""
        with torch.enable_grad():
            made_by: Any = parameter.view_as(parameter).grad_fn
        reached = self._reached
        self._handles.append(made_by.next_functions[0][0].register_prehook(lambda gradients: reached.add(name)))

    def unreached(self) -> list[str]:
        """The parameters that no gradient has reached since the last step, if any was reached."""
        return [name for name in self._names if name not in self._reached] if self._reached else []

    def after_forward(self, ddp: Any) -> None:
        """Compares the buffers with their values after the last forward pass that was looked at."""
        if not _trains(ddp) or torch._C._get_tracing_state() is not None:
            return
        if self._checks >= BUFFER_CHECKS and not (sampled(self._loop.windows) and not self._on_device(ddp)):
            return
        with quietly():
            buffers = [one for one in ddp.module.buffers() if ordinary(one) and one.device.type != "meta"]
            now = [number(one.sum(dtype=torch.float64)) for one in buffers if not one.is_complex()]
        if self._buffers is not None:
            self._checks += 1
            self._changed += now != self._buffers
        self._buffers = now

    def _on_device(self, ddp: Any) -> bool:
        return any(one.device.type != "cpu" for one in ddp.module.buffers())

    def after_step(self, step: int) -> None:
        """Counts the parameters without gradient; a step without a backward pass through this wrapper shows nothing."""
        if self._handles and self._reached:
            self._windows += 1
            for name in self.unreached():
                self._without[name] = self._without.get(name, 0) + 1
            self._reached.clear()
            if self._windows >= WINDOWS_LOOKED_AT:
                for handle in self._handles:
                    handle.remove()
                self._handles.clear()
        if sampled(step):
            self.tell(step)

    def tell(self, step: int) -> None:
        """Writes what is known so far."""
        ddp = self._ddp()
        if ddp is not None:
            said = ddp._get_ddp_logging_data()
            sizes = said.get("rebuilt_bucket_sizes") or said.get("bucket_sizes") or ""
            self._buckets = tuple(int(part) for part in str(sizes).replace(",", " ").split())
        row = WrapperUseRow(
            self._index, step, self._buckets, dict(self._without), self._windows, self._changed, self._checks
        )
        self._loop.notebook.row(row)
