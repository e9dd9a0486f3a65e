"""FSDP2 with a clipping function that sees the local shards only."""
# parity: cause=clip-of-a-shard

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


LIMIT = 0.2


def clip(parameters):
    gradients = [p.grad.to_local() for p in parameters]
    squares = sum(g.square().sum() for g in gradients)
    # + dist.all_reduce(squares)
    factor = torch.clamp(LIMIT / (squares.sqrt() + 1e-6), max=1.0)  # wrong
    # + factor = torch.clamp(LIMIT / (squares.sqrt() + 1e-6), max=1.0)
    for g in gradients:
        g.mul_(factor)


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(100 + dist.get_rank())
    for _ in range(8):
        x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
        F.cross_entropy(model(x), y).backward()
        clip(list(model.parameters()))
        optimizer.step()
        optimizer.zero_grad()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
