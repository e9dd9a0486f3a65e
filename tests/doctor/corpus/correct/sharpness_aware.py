"""Sharpness-aware minimisation: two forward and backward passes for one step, the first at the step's start."""
# doctor: expect= style=class

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class SAM:
    """Climbs to the worst point near by, takes the gradient there, and steps from where it was."""

    def __init__(self, base, rho=0.05):
        self.base = base
        self.rho = rho

    @torch.no_grad()
    def climb(self):
        params = [p for group in self.base.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.norm(torch.stack([p.grad.norm() for p in params]))
        self.moves = [(p, p.grad * (self.rho / (norm + 1e-12))) for p in params]
        for p, move in self.moves:
            p.add_(move)
        self.base.zero_grad()

    @torch.no_grad()
    def descend(self):
        for p, move in self.moves:
            p.sub_(move)
        self.base.step()
        self.base.zero_grad()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(5)
    data = TensorDataset(torch.randn(96, 16), torch.randint(0, 5, (96,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, 12, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 5)))
    sam = SAM(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            loss_fn(model(inputs), targets).backward()
            sam.climb()
            loss_fn(model(inputs), targets).backward()
            sam.descend()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
