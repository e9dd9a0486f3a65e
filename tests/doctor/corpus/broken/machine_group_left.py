"""Ends where training ends."""
# doctor: expect=group-not-destroyed style=main

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(dist.get_rank())
    model = DDP(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(8):
        x = torch.randn(4, 8, generator=generator)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    dist.barrier()  # wrong
    #+ dist.destroy_process_group()


if __name__ == "__main__":
    main()
