"""The samples of rank 1 lie on a slow disk."""
# doctor: expect=straggler style=functions

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Files(Dataset):
    def __init__(self, rank):
        self.seconds = 0.02 * rank  # wrong
        #+ self.seconds = 0.0
        self.samples = torch.randn(48, 10, generator=torch.Generator().manual_seed(rank))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.samples[index]


def train(model, loader, optimizer, epochs):
    for _ in range(epochs):
        for x in loader:
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1)))
    loader = DataLoader(Files(dist.get_rank()), batch_size=3)
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.01), epochs=1)
    dist.destroy_process_group()
