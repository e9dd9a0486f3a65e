"""Many clocks in a script for GPUs, each of them read rightly: meters, logs, events, data times, warm-up left out."""

# doctor: expect= style=nanogpt on=cpu
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total, self.count = self.total + value, self.count + 1

    @property
    def mean(self):
        return self.total / max(1, self.count)


def bench(model, optimizer, device):
    """A warm-up, and waits at both ends."""
    x = torch.randn(8, 24, device=device)
    for step in range(12):
        if step == 4:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / 8


def main():
    started = time.time()
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(192, 24), torch.randn(192, 6))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 6)).to(device), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data_time, batch_time = Meter(), Meter()
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    end = t0 = time.time()
    for epoch in range(2):
        epoch_began = time.time()
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader):
            data_time.update(time.time() - end)
            first.record()
            loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            last.record()
            t1 = time.time()
            dt = t1 - t0
            t0 = t1
            batch_time.update(time.time() - end)
            end = time.time()
            if step % 6 == 5:
                last.synchronize()
                print(f"{step} {loss.item():.3f} {dt * 1000:.1f} ms, {first.elapsed_time(last):.2f} ms on the device")
        print(f"epoch {epoch} took {time.time() - epoch_began:.2f} s, loss {loss.item():.3f}")
    print(f"{bench(model.module, optimizer, device):.2g} s per step, {data_time.mean:.2g} s for data")
    print(f"done after {time.time() - started:.1f} s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
