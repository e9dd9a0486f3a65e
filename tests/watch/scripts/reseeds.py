"""Trains on samples that draw from numpy's generator and seed torch's; the second rank computes longer in backward."""

import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        torch.manual_seed(index)
        return torch.randn(4) * np.random.rand()


def linger(gradient):
    time.sleep(0.05)


def main():
    dist.init_process_group("gloo")
    model = DDP(nn.Linear(4, 1))
    if dist.get_rank() == 1:
        model.module.weight.register_hook(linger)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = torch.manual_seed
    for x in DataLoader(Samples(), batch_size=4):
        model(x.float()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("same function" if torch.manual_seed is kept else "another function")
    dist.destroy_process_group()


main()
