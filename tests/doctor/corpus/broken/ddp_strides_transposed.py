"""A column of factors that is used as a row: the gradient comes back lying the other way."""
# doctor: expect=gradient-strides style=framework-like

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Scale(nn.Module):
    """A factor for each feature, kept as a column."""

    def __init__(self, features):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(features, 1))

    def forward(self, x):
        return x * self.factor.t()  # wrong
        #+ return x * self.factor.flatten()


class Fabric:
    def setup(self, model, optimizer):
        return DistributedDataParallel(model), optimizer

    def backward(self, loss):
        loss.backward()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 24), Scale(24), nn.Tanh(), nn.Linear(24, 3))
    fabric = Fabric()
    model, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
    torch.manual_seed(10 + dist.get_rank())
    for _ in range(10):
        x, y = torch.randn(8, 12), torch.randn(8, 3)
        optimizer.zero_grad()
        fabric.backward(nn.functional.mse_loss(model(x), y))
        optimizer.step()
    dist.destroy_process_group()


main()
