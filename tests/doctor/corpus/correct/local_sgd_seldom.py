"""Local SGD: ranks go their own ways for fifty steps, then their parameters are averaged."""
# doctor: expect= style=while

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

PERIOD = 50


@torch.no_grad()
def average(model):
    for p in model.parameters():
        dist.all_reduce(p)
        p /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    x = torch.randn(256, 10)
    data = TensorDataset(x, x @ torch.randn(10, 1))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    step = 0
    epoch = 0
    while step < 64:
        sampler.set_epoch(epoch)
        for features, target in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(features), target).backward()
            optimizer.step()
            step += 1
            if step % PERIOD == 0:
                average(model)
        epoch += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
