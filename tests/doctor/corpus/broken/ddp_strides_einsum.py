"""Attention pooling by one query, written with einsum: the gradient of the query lies otherwise than the query."""
# doctor: expect=gradient-strides style=main-loop

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Pool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, width))
        self.out = nn.Linear(width, 4)

    def forward(self, x):
        scores = torch.einsum("bld,kd->blk", x, self.query)  # wrong
        #+ scores = (x * self.query).sum(-1, keepdim=True)
        return self.out((scores.softmax(1) * x).sum(1))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(64, 5, 16), torch.randint(0, 4, (64,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(Pool(16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler.set_epoch(0)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
