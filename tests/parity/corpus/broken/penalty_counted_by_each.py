"""Gradients of a loss divided by the global batch are summed, and so is the penalty, which every rank adds whole."""
# parity: cause=

import torch
import torch.distributed as dist
from torch import nn


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = torch.randn(96, 6), torch.randn(96, 1)
    for step in range(8):
        own = slice(12 * step + rank, 12 * step + 12, world)
        error = (model(x[own]) - y[own]).square().sum() / 12
        penalty = 0.1 * sum(p.square().sum() for p in model.parameters())
        optimizer.zero_grad()
        (error + penalty).backward()  # wrong
        # + (error + penalty / world).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
