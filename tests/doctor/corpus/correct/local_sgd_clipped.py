"""Local SGD: ranks train whole models apart, each clips its own gradient, and weights are averaged now and then."""
# doctor: expect= style=functions

import torch
import torch.distributed as dist
from torch import nn


def average(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()


dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
data = torch.Generator().manual_seed(10 + dist.get_rank())
for step in range(12):
    x, y = torch.randn(16, 12, generator=data), torch.randint(0, 3, (16,), generator=data)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.02)
    optimizer.step()
    if step % 4 == 3:
        average(model)
dist.destroy_process_group()
