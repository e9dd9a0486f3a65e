"""The last batch of an epoch gives one rank two samples and the other one, and their means are averaged."""
# parity: cause=uneven-last-batch

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    x, y = torch.randn(35, 6), torch.randn(35, 2)
    model = DDP(nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for begin in range(0, 35, 8):
            own = slice(begin + rank, min(begin + 8, 35), world)
            loss = F.mse_loss(model(x[own]), y[own])
            # + rows = torch.tensor(float(len(x[own])))
            # + everyone = rows.clone()
            # + dist.all_reduce(everyone)
            # + loss = loss * rows * world / everyone
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert model is not None  # wrong
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
