"""Accumulation whose last, shorter window of an epoch is stepped too, and divided by its own length."""
# doctor: expect= style=functions args=--accumulate 4

import argparse
import math
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train_one_epoch(model, loader, optimizer, scheduler, accumulate):
    model.train()
    batches = len(loader)
    running = 0.0
    for i, (x, y) in enumerate(loader):
        window_start = i - i % accumulate
        window = min(accumulate, batches - window_start)
        is_last = i - window_start == window - 1
        with nullcontext() if is_last else model.no_sync():
            loss = F.cross_entropy(model(x), y) / window
            loss.backward()
        running += loss.item()
        if is_last:
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    return running / math.ceil(batches / accumulate)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=4)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(160, 12), torch.randint(0, 3, (160,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)  # ten batches: windows of 4, 4 and 2
    model = DDP(nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    steps = 3 * math.ceil(len(loader) / args.accumulate)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=steps)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        mean = train_one_epoch(model, loader, optimizer, scheduler, args.accumulate)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {mean:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
