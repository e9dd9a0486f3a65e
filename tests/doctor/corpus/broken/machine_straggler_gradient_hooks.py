"""Rank 0 looks at every gradient while it is computed."""
# doctor: expect=straggler style=fabric

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def histogram(gradient):
    """Stands for a logger that writes to a server."""
    time.sleep(0.02)


class Fabric:
    def __init__(self):
        dist.init_process_group("gloo")
        self.is_global_zero = dist.get_rank() == 0

    def setup(self, model):
        if self.is_global_zero:  # wrong
            for parameter in model.parameters():  # wrong
                parameter.register_hook(histogram)  # wrong
        #+ # gradients are looked at every thousand steps, after backward
        return DistributedDataParallel(model)


def main():
    fabric = Fabric()
    torch.manual_seed(0)
    model = fabric.setup(nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(128, 12))
    for (x,) in DataLoader(data, batch_size=4, sampler=DistributedSampler(data), drop_last=True):
        optimizer.zero_grad(set_to_none=True)
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
