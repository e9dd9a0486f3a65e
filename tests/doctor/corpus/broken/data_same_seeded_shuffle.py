"""A small classifier on synthetic pictures, every rank with its own loader."""
# doctor: expect=same-data style=main args=--epochs 2

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(42)
    train_set = TensorDataset(torch.randn(96, 16), torch.randint(0, 3, (96,)))
    train_loader = DataLoader(train_set, batch_size=8, shuffle=True)  # wrong
    #+ sampler = DistributedSampler(train_set)
    #+ train_loader = DataLoader(train_set, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3)))
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(args.epochs):
        #+ sampler.set_epoch(epoch)
        for x, y in train_loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
