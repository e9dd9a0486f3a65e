"""Tensor parallelism by hand: both ranks see the same batch on purpose, each holds half of the columns."""
# doctor: expect= style=tensor-parallel

import torch
import torch.distributed as dist
from torch import nn


class Copy(torch.autograd.Function):
    """Identity forward, sum over ranks backward."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Sum(torch.autograd.Function):
    """Sum over ranks forward, identity backward."""

    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class ParallelMLP(nn.Module):
    def __init__(self, width, hidden, outputs):
        super().__init__()
        mine = hidden // dist.get_world_size()
        torch.manual_seed(50 + dist.get_rank())
        self.up = nn.Linear(width, mine)
        self.down = nn.Linear(mine, outputs, bias=False)

    def forward(self, x):
        return Sum.apply(self.down(torch.relu(self.up(Copy.apply(x)))))


def main():
    dist.init_process_group("gloo")
    model = ParallelMLP(16, 64, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(0)
    for step in range(12):
        x = torch.randn(16, 16, generator=data)
        y = torch.randint(0, 4, (16,), generator=data)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
