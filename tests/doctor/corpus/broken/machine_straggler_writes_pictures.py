"""Rank 0 draws a picture of the weights after every step."""
# doctor: expect=straggler style=main

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def draw(weights):
    """Stands for a plotting library."""
    time.sleep(0.04)
    return weights.detach().abs().mean()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(128, 24), torch.randn(128, 2))
    loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))
    model = DDP(nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        if dist.get_rank() == 0:  # wrong
        #+ if dist.get_rank() == 0 and step % 10 == 0:
            draw(model.module[0].weight)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
