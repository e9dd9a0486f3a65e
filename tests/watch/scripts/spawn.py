"""Starts its own ranks with torch.multiprocessing.spawn, as many tutorials do; by fork if a second argument says so."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(rank: int, ranks: int) -> None:
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = DDP(nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(rank)
    losses = []
    for _ in range(6):
        loss = nn.functional.mse_loss(model(torch.randn(16, 32)), torch.randn(16, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    dist.barrier()
    if rank == 0:
        for step, loss in enumerate(losses):
            print(f"step {step} {loss.hex()}", flush=True)
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = sys.argv[1]
    if sys.argv[2:] == ["fork"]:
        mp.start_processes(train, args=(2,), nprocs=2, start_method="fork")
    else:
        mp.spawn(train, args=(2,), nprocs=2)
