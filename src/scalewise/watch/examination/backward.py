"""Notes every outermost backward pass: on which loss, with which factor, and what it left in the gradients."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from scalewise.records.notes import NOWHERE
from scalewise.watch.examination.loop import Loop, autocast_now, loop_of
from scalewise.watch.examination.loss import Reduction, reductions, strongest
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.probes import parameters_of
from scalewise.watch.examination.tensors import number, ordinary, quietly
from scalewise.watch.stamp import now_ns


def install(notebook: Notebook) -> None:
    """Wraps `torch.autograd.backward`, which `Tensor.backward` calls.

    `autograd.grad` adds to no gradient and is left alone.
    """
    loop = loop_of(notebook)
    autograd: Any = torch.autograd
    original = autograd.backward

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if loop.recorder.backward_depth or not notebook.on:
            return original(*args, **kwargs)
        look = _guarded(notebook, lambda: _Look(loop, args[0] if args else kwargs["tensors"]))
        began_ns = now_ns()
        try:
            result = original(*args, **kwargs)
        finally:
            lasted_ns = now_ns() - began_ns
            if look is not None:
                _guarded(notebook, look.end)
        if look is not None:
            _guarded(notebook, lambda: look.note(lasted_ns))
        return result

    autograd.backward = backward
    _see_hooks_on_saved(loop)


def _guarded(notebook: Notebook, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        notebook.broke("backward", error)
        return None


def _see_hooks_on_saved(loop: Loop) -> None:
    """Notes whether hooks on saved tensors are used: checkpointing and offloading unpack them their own way, once."""
    original = saved_tensors_hooks.__enter__

    @functools.wraps(original)
    def enter(self: Any) -> Any:
        loop.hooks_on_saved = True
        return original(self)

    saved_tensors_hooks.__enter__ = enter  # type: ignore[method-assign]


class _Look:
    """The notes on one backward pass, from before it to after it."""

    def __init__(self, loop: Loop, tensors: Any) -> None:
        self._loop = loop
        given = tensors if isinstance(tensors, (tuple, list)) else (tensors,)
        self._tensors = [one for one in given if isinstance(one, torch.Tensor)]
        self._autocast = autocast_now()
        self._closure = loop.recorder.optimizer_depth > 0
        self._close = loop.close
        self._loss = _free_value(self._tensors) if self._close else None
        self._reductions: list[Reduction] = []
        for tell in loop.on_backward:
            tell(self._tensors)
        self._see_zeroed_by_hand()
        self._empty = self._close and _no_gradients(loop)
        if self._close:
            self._find_reductions()

    def _see_zeroed_by_hand(self) -> None:
        loop = self._loop
        early = loop.early
        gone = False
        for probe in loop.probes.all():
            probe.before(early, self._close)
            if not probe.zeroed and probe.had is False and probe.parameter is not None:
                gone = probe.zeroed = True
        if gone:
            loop.notebook.note("zero", NOWHERE, True, place=NOWHERE)

    def _find_reductions(self) -> None:
        with quietly():
            self._reductions = reductions(self._tensors)
            for one in self._reductions:
                if not self._loop.hooks_on_saved:
                    one.count()
                one.listen()

    def end(self) -> None:
        """Removes our hooks from the graph, however the pass ended."""
        for one in self._reductions:
            one.forget()

    def _heard(self) -> tuple[float | None, Reduction | None]:
        if not self._reductions:
            return None, None
        with quietly():
            return strongest(self._reductions)

    def note(self, lasted_ns: int) -> None:
        """Notes the pass when it has returned."""
        loop = self._loop
        early = loop.early
        for probe in loop.probes.all():
            probe.after(early, self._close)
        if self._close:
            loop.probes.choose(loop.optimizers(), early, self._empty)
        factor, reduction = self._heard()
        loop.backwards += 1
        reached = loop.probes.reached()
        loop.notebook.note(
            "backward",
            lasted_ns,
            self._autocast,
            self._loss,
            None if reached is None else reached.had,
            factor,
            reduction.kind if reduction is not None else "unknown",
            reduction.counted if reduction is not None else None,
            self._closure,
            None if reached is None else reached.gained,
        )


def _no_gradients(loop: Loop) -> bool:
    return all(one.grad is None for _, optimizer in loop.optimizers() for one in parameters_of(optimizer))


def _free_value(tensors: list[torch.Tensor]) -> float | None:
    """The value of a loss of one number on the host, where reading is free; None otherwise."""
    if len(tensors) != 1 or tensors[0].numel() != 1 or tensors[0].device.type != "cpu" or not ordinary(tensors[0]):
        return None
    return number(tensors[0])
