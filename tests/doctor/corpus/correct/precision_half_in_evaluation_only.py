"""Trains in float32 and evaluates in half precision, sometimes with gradients left on by mistake of habit."""
# doctor: expect= style=function-per-epoch

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train_epoch(model, loader, optimizer):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def evaluate(model, x, y):
    model.eval()
    with torch.autocast("cpu", dtype=torch.float16):
        return nn.functional.cross_entropy(model.module(x), y).item()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    x, y = torch.randn(96, 16), torch.randint(0, 4, (96,))
    dataset = TensorDataset(x, y)
    loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        train_epoch(model, loader, optimizer)
        evaluate(model, x, y)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
