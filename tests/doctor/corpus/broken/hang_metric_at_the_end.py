"""Fits a small network by hand-averaged gradients and reports the accuracy over all ranks when it is done."""

# doctor: expect=collective-on-some-ranks style=functions ranks=2 stall=3
import torch
import torch.distributed as dist
from torch import nn


def average(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def fit(model, x, y, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        rows = slice(step * 8, step * 8 + 8)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        average(model)
        optimizer.step()


@torch.no_grad()
def accuracy(model, x, y):
    right = (model(x).argmax(1) == y).float().mean().reshape(1)
    parts = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, right)
    return torch.cat(parts).mean().item()


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))
    x, y = torch.randn(128, 10), torch.randint(0, 3, (128,))
    mine = slice(rank, None, world_size)
    fit(model, x[mine], y[mine], 8)
    if rank == 0:
        print("accuracy", accuracy(model, x[mine], y[mine]))  # wrong
    #+     print("accuracy of this rank", (model(x[mine]).argmax(1) == y[mine]).float().mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
