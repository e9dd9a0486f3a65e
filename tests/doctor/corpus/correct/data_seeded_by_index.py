"""Noise that belongs to a sample: each fetch seeds the generator by the sample's number."""
# doctor: expect= style=functions

import random

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Noisy(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        np.random.seed(index)
        random.seed(index)
        return torch.from_numpy(np.random.rand(8).astype("float32")) + random.random(), float(index % 3)


def train(model, loader, sampler, optimizer, epochs):
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = (model(x).squeeze(1) - y.float()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    data = Noisy()
    sampler = DistributedSampler(data, shuffle=True)
    model = DDP(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)))
    train(model, DataLoader(data, batch_size=8, sampler=sampler), sampler, torch.optim.SGD(model.parameters(), 0.01), 3)
    dist.destroy_process_group()
