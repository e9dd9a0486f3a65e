"""Optimizer state sharded by hand: each rank updates every other parameter and sends it to all."""
# parity: 

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 12), nn.Tanh(), nn.Linear(12, 2))
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters[rank::world], lr=1e-2)
    torch.manual_seed(7 + rank)
    for _ in range(8):
        x = torch.randn(4, 8)
        for p in parameters:
            p.grad = None
        F.mse_loss(model(x), x[:, :2]).backward()
        for index, p in enumerate(parameters):
            dist.reduce(p.grad, dst=index % world)
            p.grad /= world
        optimizer.step()
        for index, p in enumerate(parameters):
            dist.broadcast(p.data, src=index % world)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
