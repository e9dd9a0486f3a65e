"""Every rank asks torch for all cores, and then some."""
# doctor: expect=threads-per-rank style=main

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    torch.set_num_threads(2 * os.cpu_count())  # wrong
    #+ torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(4096, 64), torch.randn(4096, 8))
    loader = DataLoader(dataset, batch_size=128, sampler=DistributedSampler(dataset))
    model = DDP(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
