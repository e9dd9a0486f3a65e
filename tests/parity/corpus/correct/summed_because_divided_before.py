"""The loss is divided by the samples of all ranks, and gradients are summed, not averaged."""
# parity: 

import torch
import torch.distributed as dist
from torch import nn


def main():
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 20), nn.SiLU(), nn.Linear(20, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(50 + dist.get_rank())
    for _ in range(8):
        x = torch.randn(6, 5)
        optimizer.zero_grad()
        loss = (model(x) - x).square().sum(1).sum() / (6 * world)
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
