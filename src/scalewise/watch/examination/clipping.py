"""Notes each clipping of gradients, and the ratio of the gradient just before to that of the last backward pass."""

import functools
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.utils import clip_grad

from scalewise.watch.call_arguments import Argument
from scalewise.watch.examination.loop import Loop, loop_of
from scalewise.watch.examination.notebook import Notebook
from scalewise.watch.examination.probes import GradientProbe
from scalewise.watch.examination.tensors import number, readable

_FUNCTIONS = {"clip_grad_norm_": "norm", "clip_grad_value_": "value", "_clip_grads_with_norm_": "given"}
_LIMIT = {"norm": "max_norm", "value": "clip_value", "given": "max_norm"}


def install(notebook: Notebook) -> None:
    """Puts the wrapper wherever torch has bound the function."""
    loop, inside = loop_of(notebook), _Inside()
    for name, how in _FUNCTIONS.items():
        original = getattr(clip_grad, name, None)
        if original is None:
            continue
        watched = _watched(loop, original, how, inside)
        for module in [found for key, found in sys.modules.items() if key.startswith("torch")]:
            for bound in {name, name.removeprefix("_")}:
                if getattr(module, "__dict__", {}).get(bound) is original:
                    setattr(module, bound, watched)


class _Inside:
    """The mark of a clipping under way: one of torch's functions calls another, and both are one clipping."""

    one = False


def _watched(loop: Loop, original: Any, how: str, inside: _Inside) -> Any:
    notebook = loop.notebook
    clipped, limited, told = (Argument(original, name) for name in ("parameters", _LIMIT[how], "total_norm"))

    @functools.wraps(original)
    def clip(*args: Any, **kwargs: Any) -> Any:
        if inside.one or not notebook.on:
            return original(*args, **kwargs)
        parameters = clipped.of(args, kwargs)
        if not isinstance(parameters, (torch.Tensor, list, tuple)) and isinstance(parameters, Iterable):
            parameters = list(parameters)  # a generator can be read once
            args, kwargs = clipped.replaced(parameters, args, kwargs)
        probe, before = None, None
        try:
            listed = [parameters] if isinstance(parameters, torch.Tensor) else parameters
            probe = loop.probes.among(listed)
            before = probe.ratio(loop.early) if probe is not None else None
        except Exception as error:
            notebook.broke("clipping", error)
        inside.one = True
        try:
            result = original(*args, **kwargs)
        finally:
            inside.one = False
        try:
            limit = _number(limited.of(args, kwargs))
            found = told.of(args, kwargs) if how == "given" else result
            norm = _number(found) if how != "value" and _free(loop, found) else None
            notebook.note("clip", "value" if how == "value" else "norm", limit, norm, before)
            _remember(loop, probe, before)
        except Exception as error:
            notebook.broke("clipping", error)
        return result

    return clip


def _remember(loop: Loop, probe: GradientProbe | None, before: float | None) -> None:
    """Keeps the clipping's own factor, so that the step's ratio can leave it out and hold all other changes."""
    after = probe.ratio(loop.early) if probe is not None and before else None
    if probe is not None and before and after:
        probe.unclipped *= before / after


def _free(loop: Loop, value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1 and readable(value, loop.early)


def _number(value: Any) -> float:
    return number(value) if isinstance(value, torch.Tensor) else float(value)
