"""Accumulates over two micro-batches, both of them inside no_sync."""
# parity: cause=missing-reduction

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(128, 8), torch.randn(128, 2))
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
    model = DDP(nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(loader, 1):
        last = number % 2 == 0
        with model.no_sync():  # wrong
        # + with contextlib.nullcontext() if last else model.no_sync():
            (F.mse_loss(model(x), y) / 2).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
