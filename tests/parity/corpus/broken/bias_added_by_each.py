"""Tensor parallelism by hand: every rank adds the output bias before the partial results are summed."""
# parity: cause=

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class MLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        world, rank = dist.get_world_size(), dist.get_rank()
        up, down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.up = nn.Parameter(up.weight.detach().chunk(world, 0)[rank].clone())
        self.down = nn.Parameter(down.weight.detach().chunk(world, 1)[rank].clone())
        self.bias = nn.Parameter(down.bias.detach().clone())

    def forward(self, x):
        part = F.relu(Copy.apply(x) @ self.up.T) @ self.down.T
        return Sum.apply(part + self.bias)  # wrong
        # + return Sum.apply(part) + self.bias


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = MLP(8, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        x = torch.randn(16, 8)
        optimizer.zero_grad()
        F.mse_loss(model(x), x.flip(1)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
