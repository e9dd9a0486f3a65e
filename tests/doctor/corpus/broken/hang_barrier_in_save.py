"""A trainer that saves a checkpoint after every epoch."""

# doctor: expect=collective-on-some-ranks style=trainer ranks=2 stall=3
import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Waves(Dataset):
    def __init__(self, size):
        generator = torch.Generator().manual_seed(3)
        self.x = torch.rand(size, 16, generator=generator)
        self.y = torch.sin(self.x.sum(1, keepdim=True))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Trainer:
    def __init__(self, model, dataset, batch_size):
        self.rank = dist.get_rank()
        self.model = DistributedDataParallel(model)
        self.sampler = DistributedSampler(dataset, shuffle=True)
        self.loader = DataLoader(dataset, batch_size, sampler=self.sampler)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.model(source), targets)
        loss.backward()
        self.optimizer.step()

    def run_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        for source, targets in self.loader:
            self.run_batch(source, targets)

    def save(self, epoch):
        torch.save({"epoch": epoch, "model": self.model.module.state_dict()}, "checkpoint.pt")
        dist.barrier()  # wrong

    def train(self, epochs):
        for epoch in range(epochs):
            self.run_epoch(epoch)
            if self.rank == 0:
                self.save(epoch)
            #+ dist.barrier()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    dist.init_process_group(backend="gloo")
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
    Trainer(network, Waves(128), 16).train(args.epochs)
    dist.destroy_process_group()
