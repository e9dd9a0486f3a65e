"""Off by one: the first micro-batch of a window reduces, not the last."""
# doctor: expect=never-synchronised also=parameters-diverge style=function-per-epoch

import contextlib

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train_epoch(model, loader, optimizer, accumulation):
    model.train()
    for i, (x, y) in enumerate(loader):
        sync = i % accumulation == 0  # wrong
        #+ sync = i % accumulation == accumulation - 1
        context = contextlib.nullcontext() if sync else model.no_sync()
        with context:
            loss = nn.functional.smooth_l1_loss(model(x), y) / accumulation
            loss.backward()
        if i % accumulation == accumulation - 1:
            optimizer.step()
            optimizer.zero_grad()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(240, 12), torch.randn(240, 3))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=10, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(12, 24), nn.Sigmoid(), nn.Linear(24, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        train_epoch(model, loader, optimizer, accumulation=3)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
