"""Makes batch normalisation use the samples of all ranks, on a CPU as well, where torch's SyncBatchNorm cannot run."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

from scalewise.records.changes import AxisValue, Declared
from scalewise.watch.parity.joint_statistics import jointly_normalised, ranks_are_there
from scalewise.watch.recorder import Recorder
from scalewise.watch.seams import seam

NAME = "joint_batch_norm"
CHANGE = Declared(least_ranks=2)


def install(recorder: Recorder, settings: Mapping[str, AxisValue]) -> None:
    """Replaces torch's function where it is asked to use the statistics of the batch."""

    def batch_norm(
        call: Any, input: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None,
        training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
    ) -> Any:  # fmt: skip
        if not (training and ranks_are_there() and torch.is_grad_enabled()):
            return call(input, mean, var, weight, bias, training, momentum, eps)
        recorder.intervene(NAME)
        return jointly_normalised(input, mean, var, weight, bias, momentum, eps)

    seam(functional, "batch_norm").around(batch_norm)
