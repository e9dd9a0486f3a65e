"""Sums squared errors and divides by the rows of the micro-batch: a mean, added up over the window."""
# doctor: expect=loss-not-divided style=function-per-epoch args=--accumulate 3

import argparse
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def squared_error(prediction, target):
    return ((prediction - target) ** 2).sum() / target.shape[0]


def one_epoch(net, loader, optimizer, accumulate):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        final = i % accumulate == accumulate - 1
        with contextlib.nullcontext() if final else net.no_sync():
            error = squared_error(net(x), y)
            #+ error = error / accumulate
            error.backward()
        if final:
            optimizer.step()
            optimizer.zero_grad()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=2)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(2)
    data = TensorDataset(torch.randn(192, 8), torch.randn(192, 4))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    net = DDP(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        one_epoch(net, loader, optimizer, args.accumulate)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
