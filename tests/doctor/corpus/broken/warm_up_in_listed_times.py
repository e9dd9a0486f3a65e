"""A trainer that keeps the time of every step and reports throughput; tables are built when they are first needed."""

# doctor: expect=warm-up-in-average style=trainer ranks=2
import statistics
from time import monotonic

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Sequences(Dataset):
    """Features come from a table that is worked out at first use."""

    def __init__(self, size):
        self.size = size
        self.table = None

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if self.table is None:
            angles = torch.arange(2_000_000, dtype=torch.float64)
            self.table = torch.sin(torch.cos(angles).exp()).cumsum(0).exp().log()[: self.size * 16].view(-1, 16).float()
        row = self.table[index]
        return row, row.mean().reshape(1)


class Trainer:
    def __init__(self, dataset):
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1)))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.sampler = DistributedSampler(dataset)
        self.loader = DataLoader(dataset, batch_size=8, sampler=self.sampler)
        self.times = []

    def fit(self, epochs):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            self.began = monotonic()
            for x, y in self.loader:
                self.optimizer.zero_grad()
                nn.functional.mse_loss(self.model(x), y).backward()
                self.optimizer.step()
                now = monotonic()
                self.times.append(now - self.began)
                self.began = now

    def report(self):
        mean = statistics.fmean(self.times)  # wrong
        #+ mean = statistics.fmean(self.times[3:])
        print(f"{8 / mean:.0f} samples per second and rank")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    trainer = Trainer(Sequences(192))
    trainer.fit(2)
    trainer.report()
    dist.destroy_process_group()
