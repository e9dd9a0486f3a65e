"""FSDP2 with a clipping function written by hand: it sees the local shards only."""
# doctor: expect=clip-of-a-shard style=fsdp

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

LIMIT = 0.1


def clip(parameters, limit):
    gradients = [one.grad.to_local() for one in parameters if one.grad is not None]
    squares = sum(one.square().sum() for one in gradients)
    #+ dist.all_reduce(squares)
    factor = torch.clamp(limit / (squares.sqrt() + 1e-6), max=1.0)
    for one in gradients:
        one.mul_(factor)
    return squares.sqrt()


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(100 + dist.get_rank())
    for _ in range(8):
        x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
        F.cross_entropy(model(x), y).backward()
        clip(list(model.parameters()), LIMIT)
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
