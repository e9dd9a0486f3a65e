"""Data parallelism by hand: gradients are averaged by all_reduce, no wrapper."""
# doctor: expect= style=functions

import os

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset, Subset


class Sines(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(7)
        self.x = torch.rand(count, 4, generator=generator) * 6 - 3
        self.y = torch.sin(self.x).sum(1, keepdim=True)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad, op=dist.ReduceOp.SUM)
        param.grad /= size


def run(rank, size):
    torch.manual_seed(1234)  # the same model everywhere
    everything = Sines(128)
    part = Subset(everything, list(range(rank, len(everything), size)))
    loader = DataLoader(part, batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(rank))
    model = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for epoch in range(3):
        epoch_loss = 0.0
        for data, target in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(data), target)
            epoch_loss += loss.item()
            loss.backward()
            average_gradients(model)
            optimizer.step()
        print("rank", rank, "epoch", epoch, epoch_loss / len(loader))


if __name__ == "__main__":
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    run(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
