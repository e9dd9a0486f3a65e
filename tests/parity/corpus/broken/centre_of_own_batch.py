"""Outputs are centred by a running mean that each rank keeps of its own batch, and DDP passes on rank 0's."""
# parity: cause=

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 6))
        self.register_buffer("centre", torch.zeros(6))

    def forward(self, x):
        out = self.layers(x)
        mean = out.detach().mean(0)
        # + dist.all_reduce(mean)
        # + mean = mean / dist.get_world_size()
        centred = out - self.centre
        self.centre.lerp_(mean, 0.5)  # wrong
        # + self.centre.lerp_(mean, 0.5)
        return centred


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Head())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(64, 8), torch.randint(0, 6, (64,)))
    for x, y in DataLoader(data, batch_size=4, sampler=DistributedSampler(data)):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
