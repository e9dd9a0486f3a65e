"""A sampler of the script's own deals an order out over the ranks, but every rank has another order."""
# doctor: expect=sampler-seeds-differ style=own-sampler

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Sampler, TensorDataset


class Dealt(Sampler):
    def __init__(self, size, rank, world):
        self.size, self.mine, self.world = size, rank, world
        self.generator = torch.Generator().manual_seed(rank)  # wrong
        #+ self.generator = torch.Generator().manual_seed(0)

    def __iter__(self):
        yield from torch.randperm(self.size, generator=self.generator).tolist()[self.mine :: self.world]

    def __len__(self):
        return self.size // self.world


dist.init_process_group("gloo")
torch.manual_seed(3)
model = DistributedDataParallel(nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters())
dataset = TensorDataset(torch.randn(96, 8), torch.randint(0, 3, (96,)))
loader = DataLoader(dataset, batch_size=6, sampler=Dealt(len(dataset), dist.get_rank(), dist.get_world_size()))
for epoch in range(3):
    for inputs, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
dist.destroy_process_group()
