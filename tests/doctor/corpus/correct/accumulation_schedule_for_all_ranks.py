"""A schedule that was written for one process: with each update it goes on by one step per rank, as libraries do it."""
# doctor: expect= style=framework

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ACCUMULATE = 2


class Scheduler:
    """Steps once per rank, and only when the optimizer has."""

    def __init__(self, scheduler):
        self.scheduler = scheduler

    def step(self):
        for _ in range(dist.get_world_size()):
            self.scheduler.step()


dist.init_process_group("gloo")
torch.manual_seed(8)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = Scheduler(torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step)))
dataset = TensorDataset(torch.randn(128, 8), torch.randint(0, 3, (128,)))
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=8, sampler=sampler)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for index, (inputs, labels) in enumerate(loader):
        last = (index + 1) % ACCUMULATE == 0
        with contextlib.nullcontext() if last else model.no_sync():
            (nn.functional.cross_entropy(model(inputs), labels) / ACCUMULATE).backward()
        if last:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
dist.destroy_process_group()
