"""Gradients are summed over the ranks by hand, and nobody divides them."""
# parity: cause=summed-not-averaged

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def reduce_gradients(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        # + p.grad /= dist.get_world_size()
        pass  # wrong


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    everything = torch.Generator().manual_seed(7)
    rank, world = dist.get_rank(), dist.get_world_size()
    for _ in range(8):
        x = torch.randn(16, 10, generator=everything)
        y = torch.randint(0, 3, (16,), generator=everything)
        x, y = x.chunk(world)[rank], y.chunk(world)[rank]
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        reduce_gradients(model)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
