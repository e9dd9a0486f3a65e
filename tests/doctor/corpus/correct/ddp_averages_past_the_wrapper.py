"""Calls the inner module on purpose and averages all gradients in one flat tensor by itself."""
# doctor: expect= style=while-loop

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
dataset = TensorDataset(torch.randn(128, 8), torch.randn(128, 1))
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=8, sampler=sampler)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def average():
    gradients = [p.grad for p in model.parameters()]
    flat = torch.cat([g.flatten() for g in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients])):
        gradient.copy_(part.view_as(gradient))


sampler.set_epoch(0)
batches = iter(loader)
while (batch := next(batches, None)) is not None:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model.module(batch[0]), batch[1])
    loss.backward()
    average()
    optimizer.step()
dist.destroy_process_group()
