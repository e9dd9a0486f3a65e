"""A cosine schedule whose length is counted in samples of all ranks, so it goes down at half the pace."""
# parity: cause=learning-rate-differs

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    x, y = torch.randn(80, 6), torch.randn(80, 1)
    model = DDP(nn.Linear(6, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    length = 10 * world  # wrong
    # + length = 10
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, length)
    for step in range(10):
        own = slice(8 * step + rank, 8 * step + 8, world)
        optimizer.zero_grad()
        F.mse_loss(model(x[own]), y[own]).backward()
        optimizer.step()
        scheduler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
