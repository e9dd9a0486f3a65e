"""Rank 0 does more than the others, and everything that needs them is called by all: logs, samples, a gathered metric."""
# doctor: expect= style=functions

import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Meter:
    """A mean over all ranks, asked for now and then."""

    def __init__(self):
        self.total = torch.zeros(2)

    def add(self, value, count):
        self.total += torch.tensor([float(value) * count, float(count)])

    def mean(self):
        everything = self.total.clone()
        dist.all_reduce(everything)
        self.total.zero_()
        return float(everything[0] / everything[1])


def log(record):
    if dist.get_rank() == 0:
        with open("log.jsonl", "a") as file:
            file.write(json.dumps(record) + "\n")


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(192, 12), torch.randint(0, 3, (192,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    meter = Meter()
    began = time.perf_counter()
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            meter.add(loss.detach(), len(x))
            if step % 4 == 3:
                mean = meter.mean()
                log({"epoch": epoch, "step": step, "loss": mean})
    seconds = torch.tensor([time.perf_counter() - began])
    everyone = [torch.zeros(1) for _ in range(dist.get_world_size())] if dist.get_rank() == 0 else None
    dist.gather(seconds, everyone, dst=0)
    if dist.get_rank() == 0:
        print("seconds by rank", [round(float(one), 3) for one in everyone])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
