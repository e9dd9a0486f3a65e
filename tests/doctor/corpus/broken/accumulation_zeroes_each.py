"""Keeps the line of a plain loop that zeroes in front of every batch, and steps every fourth."""
# doctor: expect=zeroed-every-micro-batch style=main-loop

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(256, 16), torch.randint(0, 4, (256,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            optimizer.zero_grad()  # wrong
            last = (i + 1) % 4 == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = nn.functional.cross_entropy(model(x), y) / 4
                loss.backward()
            if last:
                optimizer.step()
                #+ optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
