"""Notes every outermost module call: which module, through which wrapper, whether it will synchronise, on what data."""

import threading
import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.batch_norms import BatchNorms
from scalewise.watch.examination.loop import EARLY_PASSES, Loop, autocast_now, loop_of
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.stages import Stages
from scalewise.watch.examination.tensors import digest, quietly, readable, row_digests
from scalewise.watch.examination.training_mode import active_layers
from scalewise.watch.examination.wrappers import Wrappers, wrappers_of
from scalewise.watch.hooks import compiler
from scalewise.watch.hooks.forward import first_tensor
from scalewise.watch.stamp import now_ns

MOST_ROWS = 64  # samples whose digests are taken
MOST_EVALUATED = 200  # passes without gradients whose layers are looked at


def install(notebook: Notebook) -> None:
    """Wraps `nn.Module.__call__` around the watcher's own wrapper, which modules inside others need not pass."""
    loop, wrappers, calls = loop_of(notebook), wrappers_of(notebook), _Calls()
    stages, norms = Stages(loop), BatchNorms(notebook)
    watched: Any = nn.Module.__call__
    plain: Any = nn.Module._wrapped_call_impl
    this_thread, main_thread = threading.get_ident, threading.main_thread().ident
    recorder = loop.recorder
    inside = False

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        if inside:
            if norms.looking:
                norms.see(self, args, kwargs)
            if stages.looking:
                return stages.call(plain, self, args, kwargs)
            return plain(self, *args, **kwargs)
        if recorder.backward_depth or not notebook.on or this_thread() != main_thread:
            return watched(self, *args, **kwargs)
        inside = True
        looked: _Look | None = None
        try:
            try:
                norms.begin(torch.is_grad_enabled() and self.training, calls.of(self).trained)
                looked = _Look(self, args, kwargs, loop, wrappers, calls)
                stages.begin(self, args, kwargs)
            except Exception as error:
                notebook.broke("forward", error)
            result = watched(self, *args, **kwargs)
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
    nn.Module.__call__ = __call__  # type: ignore[method-assign]
    compiler.tell_dynamo(__call__)
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
