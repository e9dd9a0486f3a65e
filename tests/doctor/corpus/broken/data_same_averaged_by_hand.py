"""Gradients are averaged by hand; batches are slices of one list."""
# doctor: expect=same-data style=functions

import torch
import torch.distributed as dist
from torch import nn


def average_gradients(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def run_epoch(model, batches, optimizer):
    total = 0.0
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        average_gradients(model)
        optimizer.step()
        total += loss.item()
    return total / len(batches)


def main():
    dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(0)
    samples = torch.randn(80, 6, generator=generator)
    targets = samples.sum(1, keepdim=True)
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batches = list(zip(samples.split(8), targets.split(8)))
    #+ batches = batches[dist.get_rank() :: dist.get_world_size()]
    for epoch in range(2):
        mean = run_epoch(model, batches, optimizer)
        if dist.get_rank() == 0:
            print(epoch, mean)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
