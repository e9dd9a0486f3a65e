"""A generator and a discriminator, each with an optimizer of its own; noise is drawn by each rank."""
# parity: 

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    real = torch.randn(96, 4)
    make = DDP(nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4)))
    judge = DDP(nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)), broadcast_buffers=False)
    first = torch.optim.Adam(make.parameters(), lr=1e-3, betas=(0.5, 0.9))
    second = torch.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.5, 0.9))
    torch.manual_seed(dist.get_rank())
    for x in DataLoader(real, batch_size=6, sampler=DistributedSampler(real)):
        noise = torch.randn(len(x), 3)
        second.zero_grad()
        loss = F.softplus(-judge(x)).mean() + F.softplus(judge(make(noise).detach())).mean()
        loss.backward()
        second.step()
        first.zero_grad()
        F.softplus(-judge(make(noise))).mean().backward()
        first.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
