"""A loop of stages that are called by name; the one that clears gradients comes before the update."""
# doctor: expect=zeroed-before-step style=stages

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Loop:
    ORDER = ("forward", "backward", "clear", "update")  # wrong
    #+ ORDER = ("forward", "backward", "update", "clear")

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.batch = self.loss = None

    def forward(self):
        inputs, labels = self.batch
        self.loss = nn.functional.cross_entropy(self.model(inputs), labels)

    def backward(self):
        self.loss.backward()

    def clear(self):
        for parameter in self.model.parameters():
            parameter.grad = None

    def update(self):
        self.optimizer.step()

    def run(self, batch):
        self.batch = batch
        for stage in self.ORDER:
            getattr(self, stage)()


dist.init_process_group("gloo")
torch.manual_seed(6)
model = DDP(nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 4)))
loop = Loop(model, torch.optim.SGD(model.parameters(), lr=0.1))
dataset = TensorDataset(torch.randn(96, 10), torch.randint(0, 4, (96,)))
sampler = DistributedSampler(dataset)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for batch in DataLoader(dataset, batch_size=8, sampler=sampler):
        loop.run(batch)
dist.destroy_process_group()
