"""Rank 0 evaluates and reports through a group of its own kind while the others wait at a barrier; messages cross."""

# doctor: expect= style=functions ranks=3
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def evaluate(model, x):
    model.eval()
    with torch.no_grad():
        score = model.module(x).square().mean()
    time.sleep(0.3)
    model.train()
    return score


def pass_on(value, rank, size):
    """Even ranks send first, odd ones receive first; the last of an odd number goes around the other way."""
    received = torch.empty_like(value)
    if rank % 2 == 0 and rank + 1 < size:
        dist.send(value, rank + 1)
        dist.recv(received, rank + 1)
    elif rank % 2 == 1:
        dist.recv(received, rank - 1)
        dist.send(value, rank - 1)
    return received


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    pair = dist.new_group([0, 1])
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    torch.manual_seed(7 + rank)
    for step in range(8):
        x = torch.randn(8, 12)
        loss = (model(x) - x.mean(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 3:
            score = loss.detach().clone()
            if rank == 0:
                score = evaluate(model, x)
            if rank < 2:
                dist.all_reduce(score, group=pair)
            dist.barrier()
    pass_on(torch.full((4,), float(rank)), rank, size)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
