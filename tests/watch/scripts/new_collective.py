"""Trains and calls two collectives in every step: one of tensors, one of objects."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    parts = torch.empty(8)
    dist.all_to_all_single(parts, torch.arange(8.0))
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, {"step": step})
    optimizer.step()
dist.destroy_process_group()
