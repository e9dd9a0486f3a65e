"""Calls the wrapped module itself, so DDP never sees the backward pass."""
# parity: cause=missing-reduction

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(10, 4), nn.Linear(4, 10)

    def forward(self, x):
        return self.decode(torch.tanh(self.encode(x)))

    def loss(self, x):
        return F.mse_loss(self(x), x)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    wrapped = DDP(Net())
    optimizer = torch.optim.Adam(wrapped.parameters(), lr=1e-2)
    data = torch.randn(80, 10)
    sampler = DistributedSampler(data)
    for x in DataLoader(data, batch_size=5, sampler=sampler):
        loss = wrapped.module.loss(x)  # wrong
        # + loss = F.mse_loss(wrapped(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
