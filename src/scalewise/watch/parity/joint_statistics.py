"""Batch normalisation by the statistics of all ranks' samples, on a CPU as well, where torch's own cannot run."""

from typing import Any

import torch
from torch.distributed import distributed_c10d
from torch.nn import SyncBatchNorm
from torch.nn.functional import batch_norm

from scalewise.watch.seams import seam


class _SumOverRanks(torch.autograd.Function):
    """The sum over ranks, whose gradient is the sum of the ranks' gradients."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        """Adds up the values."""
        return _summed(values)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Adds up the gradients."""
        return _summed(gradient)


def _summed(values: torch.Tensor) -> torch.Tensor:
    total = values.clone().contiguous()
    distributed_c10d._get_default_group().allreduce([total]).wait()
    return total


def jointly_normalised(
    x: torch.Tensor, mean: Any, var: Any, weight: Any, bias: Any, momentum: float, eps: float
) -> torch.Tensor:
    """The normalised samples of this rank; running statistics are moved as if one rank had all samples."""
    over = [0, *range(2, x.dim())]
    shape = [1, -1] + [1] * (x.dim() - 2)
    own = torch.tensor([x.numel() / x.shape[1]], dtype=torch.float64)
    count = float(_summed(own))
    centre = _SumOverRanks.apply(x.float().sum(over)) / count  # type: ignore[no-untyped-call]
    apart = x - centre.view(shape)
    spread = _SumOverRanks.apply(apart.square().sum(over)) / count  # type: ignore[no-untyped-call]
    if mean is not None:
        with torch.no_grad():
            mean.lerp_(centre.to(mean.dtype), momentum)
            var.lerp_((spread * count / max(count - 1, 1)).to(var.dtype), momentum)
    result: torch.Tensor = (apart * (spread + eps).rsqrt().view(shape)).to(x.dtype)
    if weight is not None:
        result = result * weight.view(shape)
    return result + bias.view(shape) if bias is not None else result


def ranks_are_there() -> bool:
    """Tells whether there is a process group to sum over."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def install_joint_statistics() -> None:
    """Lets SyncBatchNorm take all ranks' samples on a CPU, where a script for GPUs is compared."""

    def forward(self: SyncBatchNorm, input: torch.Tensor) -> torch.Tensor:
        if not self.training or not ranks_are_there():
            return batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, self.training, 0.1, self.eps
            )
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        momentum = self.momentum
        if momentum is None:
            momentum = 1.0 / float(self.num_batches_tracked or 1)
        return jointly_normalised(
            input, self.running_mean, self.running_var, self.weight, self.bias, momentum, self.eps
        )

    seam(SyncBatchNorm, "forward").replace(forward)
