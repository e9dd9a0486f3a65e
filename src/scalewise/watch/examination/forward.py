"""Notes every outermost module call: which module, through which wrapper, whether it will synchronise, on what data.

In the first training passes it also notes the statistics that batch normalisation takes of one rank's own batch, and in
which order the devices of a model that lies on several take their turns. Of calls without gradients it notes the layers
that still behave as in training.
"""

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from scalewise.records.examination import StagesRow
from scalewise.records.notes import NOWHERE
from scalewise.watch import redirect
from scalewise.watch.examination.loop import EARLY_PASSES, Loop, autocast_now, capturing, loop_of, several_ranks
from scalewise.watch.examination.notebook import Notebook, ObjectNumbers
from scalewise.watch.examination.tensors import digest, quietly, readable, row_digests
from scalewise.watch.examination.wrappers import Wrappers, wrappers_of
from scalewise.watch.hooks import compiler
from scalewise.watch.hooks.batch_rows import first_tensor
from scalewise.watch.journal import now_ns
from scalewise.watch.seams import seam

MOST_LAYERS, MOST_CHANNELS, NORM_PASSES = 64, 32, 6  # of batch normalisation, in each model
STAGE_WINDOWS, MOST_TURNS = 6, 64
_MOST_NODES = 400  # walked back to see what a tensor was made from
_DROP_PATHS = {"DropPath": "drop_prob", "StochasticDepth": "p"}  # of other libraries, by the names of their classes
MOST_ROWS = 64  # samples whose digests are taken
MOST_EVALUATED = 200  # passes without gradients whose layers are looked at


def install(notebook: Notebook) -> None:
    """Lies around the watcher's own wrapper of `nn.Module.__call__`."""
    loop, wrappers, calls = loop_of(notebook), wrappers_of(notebook), _Calls()
    stages, norms = Stages(loop), BatchNorms(notebook)
    plain: Any = nn.Module._wrapped_call_impl
    this_thread, main_thread = threading.get_ident, threading.main_thread().ident
    recorder = loop.recorder
    inside = False

    def __call__(call: Any, self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside:  # modules inside others need not pass the watcher's own wrapper
            if norms.looking:
                norms.see(self, args, kwargs)
            if stages.looking:
                return stages.call(plain, self, args, kwargs)
            return plain(self, *args, **kwargs)
        if recorder.backward_depth or not notebook.on or this_thread() != main_thread:
            return call(self, *args, **kwargs)
        inside = True
        looked: _Look | None = None
        try:
            try:
                norms.begin(torch.is_grad_enabled() and self.training, calls.of(self).trained)
                looked = _Look(self, args, kwargs, loop, wrappers, calls)
                stages.begin(self, args, kwargs)
            except Exception as error:
                notebook.broke("forward", error)
            result = call(self, *args, **kwargs)
        finally:
            inside = False
            norms.end()
        try:
            if looked is not None:
                looked.note(loop)
                stages.end(result)
        except Exception as error:
            notebook.broke("forward", error)
        return result

    def stepped() -> None:
        nonlocal inside
        inside = False  # if the forward of a module trains, what it calls from here on is the outermost call

    recorder.on_stepped.append(stepped)
    seam(nn.Module, "__call__").around(__call__)
    compiler.tell_dynamo(nn.Module.__call__)
    recorder.on_unseen_forward = lambda: None  # an examined run never rests, so the hook is always in place


@dataclass
class _Known:
    """The facts about a module that was called."""

    learns: bool  # it has parameters: a loss or an activation is no model
    trained: int = 0  # times it was called to train
    evaluated: int = 0  # times it was called in training mode without gradients


class _Calls:
    """The modules that were called, with the facts about each."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[nn.Module, _Known] = weakref.WeakKeyDictionary()

    def of(self, module: nn.Module) -> _Known:
        """The facts about a module, found out once; a lazy module gets its parameters late, and is looked at again."""
        known = self._known.get(module)
        if known is None or not known.learns:
            known = self._known[module] = _Known(next(iter(module.parameters()), None) is not None)
        return known


class _Look:
    """The notes on one outermost call, from before it to after it."""

    def __init__(
        self,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        loop: Loop,
        wrappers: Wrappers,
        calls: _Calls,
    ) -> None:
        known = calls.of(module)
        self.counts = known.learns
        if not self.counts:
            return
        self._name = type(getattr(module, "_orig_mod", module)).__name__
        self._trains = torch.is_grad_enabled() and module.training
        self._active = (0, 0)
        self._autocast = autocast_now()
        if not loop.in_wrapper:
            loop.wrapper, loop.sync = wrappers.called(module)
        self._bypassed = NOWHERE if loop.in_wrapper else wrappers.bypassed_by(module)
        tensor = first_tensor((args, kwargs), depth=5)
        rows = tensor.size(0) if tensor is not None and tensor.dim() else None
        self._rows = rows if type(rows) is int else None  # torch.jit.trace makes a tensor of it
        self._digest: str | None = None
        self._row_digests: list[str] = []
        if module.training and not torch.is_grad_enabled() and known.evaluated < MOST_EVALUATED:
            self._active = active_layers(module)
            known.evaluated += 1
        self._learnt = known.trained > 0 or wrappers.bypassed_by(module) != NOWHERE
        if (self._active != (0, 0) or (self._trains and known.trained < EARLY_PASSES)) and tensor is not None:
            self._take_digests(tensor)
        known.trained += self._trains
        self._began_ns = now_ns()

    def _take_digests(self, tensor: torch.Tensor) -> None:
        if readable(tensor, early=True) and torch._C._get_tracing_state() is None:
            with quietly():
                self._digest, self._row_digests = digest(tensor), row_digests(tensor, MOST_ROWS)

    def note(self, loop: Loop) -> None:
        """Notes the call when it has returned."""
        if not self.counts:
            return
        lasted_ns = now_ns() - self._began_ns
        if self._active != (0, 0):
            values = (self._name, self._learnt, *self._active, self._digest, self._row_digests)
            loop.notebook.note("training_mode", *values)
            self._digest, self._row_digests = None, []
        bypassed = self._bypassed if loop.wrapper != self._bypassed else NOWHERE
        loop.notebook.note(
            "forward",
            self._name,
            loop.wrapper,
            bypassed,
            loop.sync,
            self._trains,
            self._rows,
            self._autocast,
            lasted_ns,
            self._digest,
            self._row_digests,
        )


# ---- the layers of a module that is called


class BatchNorms:
    """A recorder of batch-norm layers' calls; it changes no class, so that a model can be scripted."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._layers = ObjectNumbers()
        self.looking = False

    def begin(self, trains: bool, passes: int) -> None:
        """Prepares for an outermost call; `passes`: how often this model was called to train before."""
        self.looking = trains and passes < NORM_PASSES and several_ranks() and not capturing()

    def end(self) -> None:
        """Ends the outermost call."""
        self.looking = False

    def see(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Notes a module inside that is about to be called. SyncBatchNorm is left out: it takes all ranks' samples."""
        if not isinstance(module, _BatchNorm) or isinstance(module, SyncBatchNorm) or not module.training:
            return
        try:
            self._note(module, args[0] if args else kwargs["input"])
        except Exception as error:
            self._notebook.broke("batch norm", error)

    def _note(self, layer: nn.Module, given: Any) -> None:
        known = self._layers.of(layer)
        index = self._layers.give(layer) if known is None else known
        if index >= MOST_LAYERS or not readable(given, early=True) or given.dim() < 2:
            return
        with quietly():
            channels = given[:, :MOST_CHANNELS].transpose(0, 1).flatten(1).double()
            variances, means = torch.var_mean(channels, dim=1, correction=0)
        values = ([float(f"{one:.6g}") for one in found.tolist()] for found in (means, variances))
        self._notebook.note("batch_norm", index, given.size(0), channels.size(1), *values)


class Stages:
    """The turns between two backward passes, whether in one module or in several that the script calls."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._devices: set[str] = set()  # of all modules that were called to train
        self.looking = False
        self._place = NOWHERE
        self._forget()
        loop.on_backward.append(self._tell)

    def _forget(self) -> None:
        self._called: set[int] = set()
        self._turns: list[str] = []
        self._last: Any = None  # node of the graph that made the last layer's output
        self._chained, self._repeated = True, False

    def begin(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Prepares for a call of the outermost module."""
        self.looking = False
        if self._loop.windows >= STAGE_WINDOWS or not (module.training and torch.is_grad_enabled()):
            return
        self._devices.update(_device(one) for one in module.parameters())
        self.looking = len(self._devices) > 1
        if self.looking:
            self._enter(module, args, kwargs)

    def call(self, plain: Callable[..., Any], module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a module inside the outermost one, and notes its turn."""
        try:
            self._enter(module, args, kwargs)
        except Exception as error:
            self._loop.notebook.broke("stages", error)
        result = plain(module, *args, **kwargs)
        self._leave(result)
        return result

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Notes the turn of a layer: a module with parameters of its own."""
        own = next((one for one in module._parameters.values() if one is not None), None)
        if own is None:
            return
        device = _device(own)
        self._repeated = self._repeated or id(module) in self._called
        self._called.add(id(module))
        if self._turns and self._turns[-1] != device:
            given = first_tensor((args, kwargs), depth=3)
            self._chained = self._chained and _made_from(given.grad_fn if given is not None else None, self._last)
        if (not self._turns or self._turns[-1] != device) and len(self._turns) < MOST_TURNS:
            self._turns.append(device)

    def _leave(self, result: Any) -> None:
        made = first_tensor(result, depth=3)
        if made is not None and made.grad_fn is not None:
            self._last = made.grad_fn

    def end(self, result: Any) -> None:
        """Notes that the outermost module has returned."""
        if self.looking:
            self.looking = False
            self._place = self._loop.notebook.places.here()
            self._leave(result)

    def _tell(self, tensors: list[torch.Tensor]) -> None:
        """Writes the turns of the forward pass when backward is about to be called."""
        if len(self._turns) > 1:
            step = self._loop.windows + 1
            row = StagesRow(step, self._place, tuple(self._turns), self._chained, self._repeated)
            self._loop.notebook.row(row)
        self._forget()


def _device(tensor: torch.Tensor) -> str:
    """The device where a tensor lies, or where the script believes it to lie."""
    believed = redirect.believed_gpu(tensor)
    return str(tensor.device) if believed is None else f"cuda:{believed}"


def _made_from(node: Any, source: Any) -> bool:
    """Returns whether the node comes after the source in the graph."""
    if node is None or source is None:
        return False
    waiting, seen = [node], {node}
    while waiting and len(seen) < _MOST_NODES:
        one = waiting.pop()
        if one == source:
            return True
        for child, _ in one.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)
    return False


def active_layers(module: nn.Module) -> tuple[int, int]:
    """The numbers of dropout layers and of batch-normalisation layers in a module that are in training mode."""
    layers = [one for one in module.modules() if one.training]
    return sum(map(_drops, layers)), sum(isinstance(one, _BatchNorm) for one in layers)


def _drops(layer: nn.Module) -> bool:
    if isinstance(layer, _DropoutNd):
        return layer.p > 0
    if isinstance(layer, nn.MultiheadAttention):
        return bool(layer.dropout > 0)
    if isinstance(layer, nn.RNNBase):
        return layer.dropout > 0 and layer.num_layers > 1
    attribute = _DROP_PATHS.get(type(layer).__name__)
    chance = getattr(layer, attribute, None) if attribute else None
    return isinstance(chance, (int, float)) and chance > 0
