"""Clips gradients by the norm of the whole model where a rank has parts of it, with torch's own functions."""

import math
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.utils import clip_grad

from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam


def clip_by_whole_norm(recorder: Recorder, stages: bool = False) -> None:
    """Has `clip_grad_norm_` take plain and divided gradients together; `stages`: each rank has others."""

    def clip(
        call: Any, parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
        foreach: bool | None = None,
    ) -> Any:  # fmt: skip
        held = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if not dist.is_initialized() or not recorder.on:
            return call(held, max_norm, norm_type, error_if_nonfinite, foreach)
        norm_type = float(norm_type)
        total = _whole_norm([one.grad for one in held if one.grad is not None], norm_type, held[0].device, stages)
        if error_if_nonfinite and not bool(total.isfinite()):
            raise RuntimeError(f"The total norm of order {norm_type} for gradients is non-finite")
        torch.nn.utils.clip_grads_with_norm_(held, max_norm, total, foreach=False)
        return total

    seam(clip_grad, "clip_grad_norm_", also=[torch.nn.utils]).around(clip)


def _whole_norm(gradients: list[Any], norm_type: float, device: torch.device, stages: bool) -> torch.Tensor:
    plain = [one for one in gradients if not hasattr(one, "full_tensor")]
    divided = [one for one in gradients if hasattr(one, "full_tensor")]
    norms = [torch.nn.utils.get_total_norm(plain, norm_type)] if plain else []
    norms += [torch.linalg.vector_norm(one, norm_type).full_tensor() for one in divided]
    own = torch.stack([one.to(device) for one in norms]) if norms else torch.zeros(1, device=device)
    total: torch.Tensor = torch.linalg.vector_norm(own, norm_type)
    if stages:
        most = math.isinf(norm_type)
        total = total if most else total**norm_type
        dist.all_reduce(total, dist.ReduceOp.MAX if most else dist.ReduceOp.SUM)
        total = total if most else total ** (1 / norm_type)
    return total
