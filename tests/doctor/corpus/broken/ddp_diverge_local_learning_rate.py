"""Lowers the learning rate when the loss of the rank itself does not fall: each rank decides alone."""
# doctor: expect=parameters-diverge style=while-loop

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
x, noise = torch.randn(160, 8), torch.randn(160, 1)
dataset = TensorDataset(x, x.sum(1, keepdim=True) + 20 * noise)
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=8, sampler=sampler)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

epoch, best = 0, float("inf")
while epoch < 3:
    sampler.set_epoch(epoch)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        seen = loss.detach().clone()
        #+ dist.all_reduce(seen)
        if seen.item() > best:
            for group in optimizer.param_groups:
                group["lr"] *= 0.8
        best = min(best, seen.item())
    epoch += 1
dist.destroy_process_group()
