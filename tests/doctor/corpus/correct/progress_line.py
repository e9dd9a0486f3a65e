"""A progress line with steps per second: the clock is read every step, as a hint for people and nothing else."""
# doctor: expect= style=tqdm

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def progress(iterable, name):
    began = last = time.monotonic()
    for count, item in enumerate(iterable, start=1):
        yield item
        now = time.monotonic()
        if now - last > 0.05:
            last = now
            sys.stderr.write(f"\r{name}: {count} [{count / (now - began):.1f} it/s]")
    sys.stderr.write(f"\r{name}: {count} [{count / (time.monotonic() - began):.1f} it/s]\n")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(4)
    data = TensorDataset(torch.randn(160, 16), torch.randn(160, 4))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(16, 48), nn.Tanh(), nn.Linear(48, 4)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    history = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in progress(loader, f"epoch {epoch}") if rank == 0 else loader:
            optimizer.zero_grad()
            loss = nn.functional.smooth_l1_loss(model(x), y)
            loss.backward()
            optimizer.step()
            history.append(float(loss.detach()))
    if rank == 0:
        print("best", min(history))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
