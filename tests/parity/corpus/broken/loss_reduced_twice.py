"""The loss is summed over ranks by a function that passes gradients, and DDP comes on top."""
# parity: cause=summed-not-averaged

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


class SumOfRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        value = value.clone()
        dist.all_reduce(value)
        return value

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Linear(7, 7))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(70, 7)
    for x in DataLoader(data, batch_size=5, sampler=DistributedSampler(data)):
        loss = F.mse_loss(model(x), x.flip(1))
        loss = SumOfRanks.apply(loss)  # wrong
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
