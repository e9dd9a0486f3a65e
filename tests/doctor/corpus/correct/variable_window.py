"""Accumulation until a budget of rows is reached: windows have two to four micro-batches of different size."""
# doctor: expect= style=functions

import contextlib
import itertools

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

BUDGET = 24


def windows(sizes):
    """Lists of batch sizes that add up to the budget or a little more."""
    window, rows = [], 0
    for size in sizes:
        window.append(size)
        rows += size
        if rows >= BUDGET:
            yield window
            window, rows = [], 0
    if window:
        yield window


def train_window(model, optimizer, window, generator):
    rows = sum(window)
    for number, size in enumerate(window, start=1):
        x = torch.randn(size, 10, generator=generator)
        y = torch.randint(0, 3, (size,), generator=generator)
        with model.no_sync() if number < len(window) else contextlib.nullcontext():
            loss = F.cross_entropy(model(x), y) * (size / rows)
            loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(dist.get_rank() + 1)
    model = DDP(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sizes = itertools.islice(itertools.cycle([6, 12, 8, 10, 16, 4, 6, 6, 12]), 34)
    for window in windows(sizes):
        train_window(model, optimizer, window, generator)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
