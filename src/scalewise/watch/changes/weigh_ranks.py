"""Weighs a rank's mean loss by its share of all ranks' targets: a number is exchanged before each backward."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed import distributed_c10d

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.call_arguments import Argument
from scalewise.watch.examination.backward import reductions
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "weigh_ranks"
CHANGE = Declared()


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Wraps one function, which is enough: `Tensor.backward` calls `torch.autograd.backward`."""
    losses = Argument(torch.autograd.backward, "tensors")

    def backward(call: Any, /, *args: Any, **kwargs: Any) -> Any:
        loss = losses.of(args, kwargs)
        if isinstance(loss, torch.Tensor) and not recorder.backward_depth and _ranks() > 1:
            weight = _weight(loss)
            if weight is not None:
                recorder.intervene(NAME)
                args, kwargs = losses.replaced(loss * weight, args, kwargs)
        return call(*args, **kwargs)

    seam(torch.autograd, "backward").around(backward)


def _ranks() -> int:
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def _weight(loss: torch.Tensor) -> float | None:
    """The weight of this rank's loss; even a rank that could not count takes part, since the others wait for it."""
    found = [one for one in reductions([loss]) if one.kind == "mean"]
    for one in found:
        one.count()
    own = max((one.counted or 0 for one in found), default=0)
    everyone = torch.tensor([float(own), float(own == 0)], device=loss.device)
    distributed_c10d._get_default_group().allreduce([everyone]).wait()
    total, unknown = everyone.tolist()
    return own * _ranks() / total if not unknown else None
