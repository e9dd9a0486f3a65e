"""Fully sharded by hand: parameters lie in one flat shard per rank, and reduce_scatter sums."""
# parity: cause=summed-not-averaged

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    whole = nn.utils.parameters_to_vector(model.parameters()).detach()
    shard = nn.Parameter(whole.chunk(world)[rank].clone())
    optimizer = torch.optim.Adam([shard], lr=1e-2)
    torch.manual_seed(20 + rank)
    for _ in range(8):
        parts = [torch.empty_like(shard) for _ in range(world)]
        dist.all_gather(parts, shard.detach())
        nn.utils.vector_to_parameters(torch.cat(parts), model.parameters())
        x = torch.randn(6, 8)
        model.zero_grad()
        F.mse_loss(model(x), x).backward()
        flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
        dist.all_reduce(flat)
        # + flat /= world
        shard.grad = flat.chunk(world)[rank].clone()  # wrong
        # + shard.grad = flat.chunk(world)[rank].clone()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
