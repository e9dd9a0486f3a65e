"""Steps, not epochs: an endless iterator that moves the sampler on each time it begins anew."""
# doctor: expect= style=while args=--max-steps 20

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def cycle(loader, sampler):
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def train(max_steps):
    dist.init_process_group("gloo")
    torch.manual_seed(11)
    dataset = TensorDataset(torch.randn(96, 8), torch.randn(96, 2))
    sampler = DistributedSampler(dataset, shuffle=True, drop_last=True)
    batches = cycle(DataLoader(dataset, batch_size=8, sampler=sampler, drop_last=True), sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ELU(), nn.Linear(32, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 5))
    step = 0
    while step < max_steps:
        x, y = next(batches)
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % 10 == 0 and dist.get_rank() == 0:
            print(f"step {step}: {loss.item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=20)
    train(parser.parse_args().max_steps)
