"""Every rank always uses one of two experts, its own: find_unused_parameters is needed though averages fill all."""
# doctor: expect= style=main-loop

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(12, 24)
        self.experts = nn.ModuleList([nn.Linear(24, 3), nn.Linear(24, 3)])

    def forward(self, x, which):
        return self.experts[which](torch.relu(self.trunk(x)))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(128, 12), torch.randint(0, 3, (128,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(Experts(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler.set_epoch(0)
    for x, y in loader:
        optimizer.zero_grad(set_to_none=False)
        nn.functional.cross_entropy(model(x, rank % 2), y).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
