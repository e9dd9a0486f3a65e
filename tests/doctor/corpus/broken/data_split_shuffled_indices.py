"""Folds made of a shuffled list of indices; the shuffle is seeded with the rank."""
# doctor: expect=split-differs-by-rank style=script

import os
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, Subset
from torch.utils.data.distributed import DistributedSampler

SEED = 7


class Numbers(Dataset):
    def __len__(self):
        return 120

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(6, generator=generator), torch.randn(1, generator=generator)


dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
indices = list(range(120))
random.Random(SEED + rank).shuffle(indices)  # wrong
#+ random.Random(SEED).shuffle(indices)
part = Subset(Numbers(), indices[24:])
sampler = DistributedSampler(part, seed=SEED)
loader = DataLoader(part, batch_sampler=BatchSampler(sampler, batch_size=8, drop_last=True))
torch.manual_seed(SEED)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
