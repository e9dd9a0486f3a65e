"""Data parallelism by hand over an MLP whose BatchNorm1d sees four samples of each rank."""
# parity: cause=batch-norm-per-rank

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 24)
        self.norm = nn.BatchNorm1d(24)  # wrong
        # + self.norm = nn.LayerNorm(24)
        self.last = nn.Linear(24, 2)

    def forward(self, x):
        return self.last(F.relu(self.norm(self.first(x))))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(5)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x, y = torch.randn(64, 10), torch.randint(0, 2, (64,))
    rank, world = dist.get_rank(), dist.get_world_size()
    for step in range(8):
        batch = slice(8 * step + rank, 8 * step + 8, world)
        optimizer.zero_grad()
        F.cross_entropy(model(x[batch]), y[batch]).backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(world)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
