"""Averages the gradients of all layers in a list, and the list forgets the output layer."""
# parity: cause=missing-reduction

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(12, 12) for _ in range(3))
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return self.head(x)


def average(model):
    parameters = list(model.blocks.parameters())  # wrong
    # + parameters = list(model.parameters())
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for p, g in zip(parameters, flat.split([p.numel() for p in parameters])):
        p.grad.copy_(g.view_as(p))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(64, 12), torch.randint(0, 4, (64,)))
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data, shuffle=False))
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        average(model)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
