"""Follows one small parameter per optimizer, whose gradient shows what happens to all between backward and step."""

import weakref
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from scalewise.watch.examination.tensors import Values, any_value, local, ordinary, readable, values

_CANDIDATES = 6
_TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_TRIES = 4
_LOUD = 0.01  # of the largest candidate: a bias before a normalisation has a gradient of rounding errors


class GradientProbe:
    """One parameter of an optimizer, and what the last backward pass left in its gradient."""

    def __init__(self, parameter: torch.Tensor) -> None:
        self._parameter = weakref.ref(parameter)
        self.had: bool | None = None  # a gradient that is not zero, before the pass under way
        self.gained: float | None = None
        self.touched = False  # by the last pass
        self.zeroed = True  # since the last pass, as far as was noted
        self.left: Values | None = None
        self.unclipped = 1.0  # gradient without clipping over gradient as it is
        self._before: tuple[Any, ...] = ()
        self._values: Values | None = None

    @property
    def parameter(self) -> torch.Tensor | None:
        """The parameter; None if the script has released it."""
        return self._parameter()

    @property
    def gradient(self) -> torch.Tensor | None:
        """The gradient as it is now; this rank's part of it if it is sharded."""
        parameter = self._parameter()
        return None if parameter is None or parameter.grad is None else local(parameter.grad)

    def _mark(self) -> tuple[int, ...]:
        """A value that changes whenever the gradient does.

        In a DTensor, FSDP adds to the local part and autograd to the whole.
        """
        parameter = self._parameter()
        whole = None if parameter is None else parameter.grad
        return () if whole is None else tuple(n for one in (whole, local(whole)) for n in (id(one), one._version))

    def holds(self, early: bool) -> bool | None:
        """Returns whether the gradient is there and not zero; None if that cannot be read."""
        gradient = self.gradient
        if gradient is None:
            return False
        return any_value(gradient) if readable(gradient, early) else None

    def before(self, early: bool, close: bool) -> None:
        """Reads the gradient when a backward pass begins."""
        gradient = self.gradient
        # Later passes are judged by their order: reading a value takes longer than all other notes on a pass.
        self.had = self.holds(early) if close else (False if gradient is None else None)
        self._before = self._mark()
        self._values = None
        if close and gradient is not None and readable(gradient, early):
            self._values = values(gradient)

    def after(self, early: bool, close: bool) -> None:
        """Compares the gradient when the pass is over."""
        gradient = self.gradient
        self.touched = self._mark() != self._before and gradient is not None
        self.gained = None
        if not self.touched:
            return
        self.zeroed, self.unclipped, self.left = False, 1.0, None
        if close and gradient is not None and readable(gradient, early):
            self.left = values(gradient)
            old = self._values if self._values is not None else 0.0
            gained = float(np.linalg.norm(self.left - old))
            self.gained = gained if self.had is not None and np.isfinite(gained) else None

    def ratio(self, early: bool) -> float | None:
        """The ratio of the gradient as it is to the one that backward left; None if it is not known."""
        return self.measure(early)[0]

    def measure(self, early: bool) -> tuple[float | None, float | None, float | None]:
        """The ratio of the gradient to the one that backward left, and the norms of the latter and the former."""
        gradient = self.gradient
        if self.left is None or gradient is None or not readable(gradient, early):
            return None, None, None
        now, size = values(gradient), float(self.left @ self.left)
        if not size or now.shape != self.left.shape:
            return None, None, None
        ratio = float(now @ self.left) / size
        return (ratio, size**0.5, float(np.linalg.norm(now))) if np.isfinite(ratio) else (None, None, None)


class Probes:
    """The probes of all optimizers."""

    def __init__(self) -> None:
        self._of: dict[int, GradientProbe] = {}  # by the optimizer's number
        self._tries: Counter[int] = Counter()  # times that an optimizer had no gradient to choose

    def of(self, optimizer: int) -> GradientProbe | None:
        """The probe of one optimizer."""
        return self._of.get(optimizer)

    def all(self) -> Iterable[GradientProbe]:
        """The probes, each once."""
        return self._of.values()

    def among(self, parameters: Iterable[Any]) -> GradientProbe | None:
        """A probe whose parameter is among the given ones; None if there is none."""
        wanted = {id(parameter) for parameter in parameters}
        return next((probe for probe in self.all() if id(probe.parameter) in wanted), None)

    def choose(self, optimizers: Iterable[tuple[int, Any]], early: bool, empty: bool) -> None:
        """Chooses a probe for optimizers that have gradients but no probe left; `empty`: there were none before."""
        for number, optimizer in optimizers:
            known = self._of.get(number)
            if known is None or known.parameter is None:
                self._tries[number] += 1
                parameter = _small_one(parameters_of(optimizer), early, finite=self._tries[number] < _TRIES)
                if parameter is not None:
                    probe = GradientProbe(parameter)
                    probe.had = False if empty else None
                    probe.after(early, close=True)
                    self._of[number] = probe

    def reached(self) -> GradientProbe | None:
        """A probe that the last backward pass added to, preferably one that was empty before."""
        touched = [probe for probe in self.all() if probe.touched]
        return next((probe for probe in touched if probe.had is False), touched[0] if touched else None)


def parameters_of(optimizer: Any) -> list[torch.Tensor]:
    """The parameters of all groups of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _small_one(parameters: Iterable[torch.Tensor], early: bool, finite: bool) -> torch.Tensor | None:
    """The smallest parameter with a gradient of several values, unless those are only noise beside the others.

    A scaler's first gradients may be infinite. A script whose gradients are never finite can still forget to zero them.
    """
    able = [
        parameter
        for parameter in parameters
        if local(parameter).numel() > 1
        and parameter.dtype in _TYPES
        and ordinary(local(parameter))
        and parameter.grad is not None
        and readable(local(parameter.grad), early)
    ]
    able = sorted(able, key=lambda parameter: local(parameter).numel())[:_CANDIDATES]
    sizes = [float(np.abs(values(local(parameter.grad))).mean()) for parameter in able]
    if not finite and able and not any(map(np.isfinite, sizes)):
        return able[0]
    loudest = max((size for size in sizes if np.isfinite(size)), default=0.0)
    return next((one for one, size in zip(able, sizes, strict=True) if size > 0 and size >= _LOUD * loudest), None)
