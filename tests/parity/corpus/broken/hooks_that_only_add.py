"""Hooks reduce each gradient as it becomes ready, asynchronously, and forget to divide when they have waited."""
# parity: cause=summed-not-averaged

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def overlap(model):
    waiting = []

    def reduce(p):
        waiting.append((p, dist.all_reduce(p.grad, async_op=True)))

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(reduce)
    return waiting


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(16, 8), nn.Flatten(), nn.Linear(40, 16))
    waiting = overlap(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.01)
    tokens = torch.randint(0, 16, (96, 6))
    rank, world = dist.get_rank(), dist.get_world_size()
    for step in range(8):
        own = tokens[12 * step : 12 * step + 12].chunk(world)[rank]
        optimizer.zero_grad()
        F.cross_entropy(model(own[:, :5]), own[:, 5]).backward()
        for p, handle in waiting:
            handle.wait()
            # + p.grad.div_(world)
        waiting.clear()  # wrong
        # + waiting.clear()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
