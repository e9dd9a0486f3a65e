"""Clips shards of a gradient by the norm of all of them together: one number is exchanged before each step."""

import math
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed import distributed_c10d
from torch.nn.utils import clip_grad
from torch.optim.optimizer import Optimizer

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.call_arguments import receiver
from scalewise.watch.changes import ChangeGuard
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import Given, seam, step_hooks

NAME = "clip_by_whole_norm"
CHANGE = Declared(settings={"limit": "number"}, example="clip_by_whole_norm:limit=1.0", least_ranks=2)
SAME = 1e-3  # relative difference allowed between the factors of tensors that were scaled by one factor


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Replaces the script's own clipping factor by that of the whole norm, in the gradients before each step.

    The gradients before the script's clipping are known from the end of the backward pass, or from the call
    of torch's function. If the gradients of the step are not these times one factor, the script did something else, and
    nothing is changed.
    """
    guard = ChangeGuard(recorder, NAME)
    shards = _Shards(float(settings["limit"]))

    def remember(args: tuple[Any, ...], kwargs: Given, result: object = None) -> None:
        if not recorder.backward_depth:
            shards.remember()

    def made(args: tuple[Any, ...], kwargs: Given, result: None) -> None:
        shards.optimizers.add(receiver(args, kwargs))

    def clip_together(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if shards.clip_together():
            recorder.intervene(NAME)

    seam(torch.autograd, "backward").after(guard, remember)
    seam(clip_grad, "clip_grad_norm_", also=[torch.nn.utils]).before(guard, remember)
    seam(Optimizer, "__init__").after(guard, made)
    step_hooks.before(guard, clip_together, first=True)  # so that notes on gradients show the corrected ones


class _Shards:
    """The gradients that this rank holds, and their norms before the script clipped them."""

    def __init__(self, limit: float) -> None:
        self.optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._limit = limit
        self._own: torch.Tensor | None = None  # norm of each gradient

    def remember(self) -> None:
        """Keeps the norms as they are now."""
        self._own = _norms(self._gradients())

    def clip_together(self) -> bool:
        """Clips by the whole norm; a rank that does not know its norm takes part, too, since the others wait for it."""
        gradients, own = self._gradients(), self._own
        applied = _norms(gradients)
        factor = _common_factor(own, applied) if own is not None and applied is not None else None
        device = gradients[0].device if gradients else torch.device("cpu")
        square = float(own.square().sum()) if own is not None and factor is not None else 0.0
        everyone = torch.tensor([square, float(factor is None)], dtype=torch.float64, device=device)
        distributed_c10d._get_default_group().allreduce([everyone]).wait()
        squares, unknown = everyone.tolist()
        if unknown or not factor or not squares:
            return False
        right = min(1.0, self._limit / math.sqrt(squares)) / factor
        with torch.no_grad():
            for gradient in gradients:
                gradient.mul_(right)
        return True

    def _gradients(self) -> list[torch.Tensor]:
        """The parts of the gradients on this rank."""
        parameters = [one for held in self.optimizers for group in held.param_groups for one in group["params"]]
        return [getattr(one.grad, "_local_tensor", one.grad) for one in parameters if one.grad is not None]


def _norms(gradients: list[torch.Tensor]) -> torch.Tensor | None:
    if not gradients:
        return None
    with torch.no_grad():
        return torch.stack([torch.linalg.vector_norm(one, dtype=torch.float64) for one in gradients])


def _common_factor(own: torch.Tensor, applied: torch.Tensor) -> float | None:
    """The factor by which all gradients were multiplied; None if there is no such factor."""
    if own.shape != applied.shape or not float(own.sum()):
        return None
    factor = float(applied.sum() / own.sum())
    together = torch.allclose(applied, own * factor, rtol=SAME, atol=SAME * float(applied.max()))
    return factor if together and math.isfinite(factor) else None
