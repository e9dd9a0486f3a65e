"""Sums in groups that lie differently over nodes of two ranks, in every step."""

import os

import torch
import torch.distributed as dist
from torch import nn

os.environ["LOCAL_WORLD_SIZE"] = "2"
dist.init_process_group("gloo")
inside = dist.new_group([0, 1])
across = dist.new_group(list(range(0, dist.get_world_size(), 2)))
model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(4):
    model(torch.randn(4, 8)).sum().backward()
    for group in (inside, across, None):
        dist.all_reduce(model.weight.grad, group=group)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
