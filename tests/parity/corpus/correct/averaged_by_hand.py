"""Gradients are summed over ranks and divided, on batches that are dealt out by rank."""
# parity: 

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    x, y = torch.randn(96, 8), torch.randint(0, 3, (96,))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for step in range(8):
        own = slice(12 * step + rank, 12 * step + 12, world)
        optimizer.zero_grad()
        F.cross_entropy(model(x[own]), y[own]).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
