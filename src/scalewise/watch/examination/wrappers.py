"""Tracks the wrappers of a model (DDP, DataParallel, FSDP): which one a call went through, and if it synchronises."""

import contextlib
import functools
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from scalewise.records.examination import WrapperRow
from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.loop import Loop, loop_of
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.numbers import ObjectNumbers
from scalewise.watch.layout import averaging_ranks

_OPTIONS = (
    "find_unused_parameters",
    "broadcast_buffers",
    "static_graph",
    "gradient_as_bucket_view",
    "bucket_bytes_cap",
)


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
            inner = getattr(wrapper, "module", None)
            for module in inner.modules() if isinstance(inner, nn.Module) else ():
                self._inner.give(module, number)
            self._loop.notebook.row(_describe(number, wrapper, self._loop.notebook.places.here()))
        return number

    def any(self) -> bool:
        """Returns whether any wrapper was ever made."""
        return bool(self._made)

    def synchronised(self) -> list[tuple[int, Any]]:
        """The DDP wrappers that still exist, with their numbers."""
        found = ((index, held()) for index, held in enumerate(self._made))
        return [(index, one) for index, one in found if hasattr(one, "require_backward_grad_sync")]

    def called(self, module: nn.Module) -> tuple[int, bool]:
        """The wrapper that a module called from outside is, and whether it will synchronise."""
        module = getattr(module, "_orig_mod", module)
        kind: Any = type(module)
        if issubclass(kind, nn.DataParallel):
            return self.index_of(module), True
        shard = module if _shards(kind) else self._shard_in(module)
        return (NOWHERE, False) if shard is None else (self.index_of(shard), _fsdp_synchronises(shard))

    def _shard_in(self, module: nn.Module) -> nn.Module | None:
        """The first FSDP module inside a module that is not FSDP itself: layers may be sharded one by one."""
        if module not in self._sharded_in:
            found = next((one for one in module.modules() if _is_sharded(one)), None)
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
    """Wraps construction, forward and no_sync of DDP, and construction of DataParallel; FSDP is found when called."""
    wrappers = wrappers_of(notebook)
    _see_made(notebook, wrappers, nn.DataParallel)
    if torch.distributed.is_available():
        from torch.nn.parallel import DistributedDataParallel

        _see_made(notebook, wrappers, DistributedDataParallel)
        _see_called(notebook, wrappers, DistributedDataParallel)
        _see_no_sync(notebook, wrappers, DistributedDataParallel)


def _see_made(notebook: Notebook, wrappers: Wrappers, kind: Any) -> None:
    original = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if notebook.on:
            try:
                wrappers.index_of(self)
            except Exception as error:
                notebook.broke(kind.__name__, error)

    kind.__init__ = __init__


def _see_called(notebook: Notebook, wrappers: Wrappers, kind: Any) -> None:
    """Notes the wrapper for the outermost call: DDP may be called itself or from inside a module of the user's."""
    original = kind.forward
    loop = loop_of(notebook)

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not notebook.on:
            return original(self, *args, **kwargs)
        try:
            loop.wrapper, loop.sync = wrappers.index_of(self), bool(self.require_backward_grad_sync)
        except Exception as error:
            notebook.broke(kind.__name__, error)
        loop.in_wrapper += 1
        try:
            return original(self, *args, **kwargs)
        finally:
            loop.in_wrapper -= 1

    kind.forward = forward


def _see_no_sync(notebook: Notebook, wrappers: Wrappers, kind: Any) -> None:
    original = kind.no_sync

    @contextlib.contextmanager
    @functools.wraps(original)
    def no_sync(self: Any) -> Iterator[None]:
        if notebook.on:
            try:
                notebook.note("no_sync", wrappers.index_of(self))
            except Exception as error:
                notebook.broke("no_sync", error)
        with original(self):
            yield

    kind.no_sync = no_sync


def _fsdp_synchronises(module: Any) -> bool:
    """Returns whether FSDP will synchronise, from the flag its version keeps; True, as by default, if there is none."""
    if hasattr(module, "_get_fsdp_state"):
        group = getattr(module._get_fsdp_state(), "_fsdp_param_group", None)
        return bool(getattr(group, "reduce_grads", True))
    return bool(getattr(module, "_sync_gradients", True))


def _describe(index: int, wrapper: nn.Module, place: int) -> WrapperRow:
    parameters = [getattr(one, "_local_tensor", one) for one in wrapper.parameters()]
    device = parameters[0].device if parameters else torch.device("cpu")
    batch_norms = (m for m in wrapper.modules() if isinstance(m, nn.modules.batchnorm._NormBase))
    return WrapperRow(
        index=index,
        wrapper=_name(wrapper),
        place=place,
        device=str(device),
        gpu=_identity(device),
        parameter_bytes=_bytes(parameters),
        buffer_bytes=_bytes(list(wrapper.buffers())),
        batch_norms=sum(bool(one.track_running_stats) for one in batch_norms),
        ranks=_ranks(wrapper),
        options=_options(wrapper),
    )


def _name(wrapper: nn.Module) -> str:
    """The kind of a wrapper: a user's class that derives from DDP is a DDP, and all kinds of FSDP are one."""
    made: Any = type(wrapper)
    if _shards(made):
        return "FSDP"
    kinds = (kind.__name__ for kind in type(wrapper).__mro__ if kind.__module__.startswith("torch."))
    return next(kinds, type(wrapper).__name__)


def _is_sharded(module: nn.Module) -> bool:
    kind: Any = type(module)
    return _shards(kind)


@functools.cache
def _shards(kind: type) -> bool:
    return any(base.__name__ in ("FSDPModule", "FullyShardedDataParallel") for base in kind.__mro__)


def _options(wrapper: Any) -> dict[str, str | int | float | bool]:
    """The options of a wrapper, as the wrapper keeps them."""
    found = {name: getattr(wrapper, name, None) for name in _OPTIONS}
    options: dict[str, str | int | float | bool] = {
        name: value for name, value in found.items() if isinstance(value, (bool, int, float, str))
    }
    if not options.get("find_unused_parameters", True) and getattr(wrapper, "_delay_all_reduce_params", None):
        options["delay_all_reduce"] = True
    if isinstance(wrapper, nn.DataParallel):
        options["devices"] = len(wrapper.device_ids)
    return options


def _ranks(wrapper: Any) -> tuple[int, ...]:
    if hasattr(wrapper, "_get_fsdp_state"):
        # The outermost module has no parameters of its own if all are sharded inside it.
        states = (one._get_fsdp_state() for one in wrapper.modules() if hasattr(one, "_get_fsdp_state"))
        return next(filter(None, map(averaging_ranks, states)), ())
    group = getattr(wrapper, "process_group", None)
    if group is None or not torch.distributed.is_initialized():
        return ()
    return tuple(torch.distributed.get_process_group_ranks(group))


def _identity(device: torch.device) -> str:
    """The identity of the GPU itself, not its number among those this process may see."""
    if device.type != "cuda":
        return ""
    return str(torch.cuda.get_device_properties(device).uuid)


def _bytes(tensors: list[torch.Tensor]) -> int:
    return sum(one.numel() * one.element_size() for one in tensors)
