"""The gradients are averaged after the optimizer has used them."""
# parity: cause=missing-reduction

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def average(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(9, 9), nn.Tanh(), nn.Linear(9, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    data = TensorDataset(torch.randn(72, 9), torch.randn(72, 1))
    for x, y in DataLoader(data, batch_size=6, sampler=DistributedSampler(data)):
        optimizer.zero_grad()
        F.l1_loss(model(x), y).backward()
        # + average(model)
        optimizer.step()
        average(model)  # wrong
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
