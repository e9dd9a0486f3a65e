"""Padding that hardly matters: with many sentences on each rank the counts are equal within a few per cent."""
# doctor: expect= style=main

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Embedding(20, 16), nn.Linear(16, 20)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        tokens = torch.randint(0, 20, (96, 24), generator=generator)
        lengths = torch.randint(18, 25, (96, 1), generator=generator)
        targets = tokens.masked_fill(torch.arange(24) >= lengths, -100)
        optimizer.zero_grad()
        F.cross_entropy(model(tokens).transpose(1, 2), targets).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
