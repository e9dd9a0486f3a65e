"""Convolutions normalise over many positions; the head behind the pooling has two samples and nothing else."""
# doctor: expect=batch-norm-small-batch style=class

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 5))  # wrong
        #+ self.head = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 5))

    def forward(self, pictures):
        return self.head(self.body(pictures).flatten(1))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(Projector())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch.manual_seed(10 + dist.get_rank())
    for _ in range(6):
        loss = nn.functional.cross_entropy(model(torch.randn(2, 3, 24, 24)), torch.randint(0, 5, (2,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()
