"""One process per shard of a stream; each leaves when its shard is used up."""

# doctor: expect=left-early also=uneven-ranks style=functions ranks=2 stall=3
import sys

import torch
import torch.distributed as dist
from torch import nn


def shard(rank):
    """Batches of this rank; shards are not equally long."""
    generator = torch.Generator().manual_seed(rank)
    for _ in range(6 + 3 * rank):  # wrong
    #+ for _ in range(6):
        yield torch.randn(8, 12, generator=generator)


def synchronise(model):
    flat = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
    flat /= dist.get_world_size()
    offset = 0
    for parameter in model.parameters():
        parameter.grad.copy_(flat[offset : offset + parameter.numel()].view_as(parameter))
        offset += parameter.numel()


def train_step(model, optimizer, x):
    optimizer.zero_grad()
    (model(x) - x).square().mean().backward()
    synchronise(model)
    optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    autoencoder = nn.Sequential(nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 12))
    optimizer = torch.optim.SGD(autoencoder.parameters(), lr=0.1)
    batches = shard(dist.get_rank())
    while True:
        batch = next(batches, None)
        if batch is None:
            dist.destroy_process_group()
            sys.exit(0)
        train_step(autoencoder, optimizer, batch)
