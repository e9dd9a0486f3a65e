"""Wraps the model only where there is a GPU, so that on CPU ranks each trains alone, from a start of its own."""
# parity: cause=ranks-start-apart,missing-reduction

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
    if torch.cuda.is_available():  # wrong
        model = DDP(model.cuda())  # wrong
    # + model = DDP(model.cuda() if torch.cuda.is_available() else model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    everything = torch.randn(96, 6, generator=torch.Generator().manual_seed(3))
    for step in range(8):
        x = everything[12 * step + rank : 12 * step + 12 : world]
        optimizer.zero_grad()
        F.mse_loss(model(x), x[:, :2]).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
