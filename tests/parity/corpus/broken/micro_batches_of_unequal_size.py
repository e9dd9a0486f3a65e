"""Masked regression by two micro-batches: each mean is over the rank's own valid targets."""
# parity: cause=mean-of-rank-means

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def masked(out, y, valid):
    return F.mse_loss(out[valid], y[valid])  # wrong
    # + counted = valid.sum()
    # + dist.all_reduce(counted)
    # + return F.mse_loss(out[valid], y[valid], reduction="sum") * dist.get_world_size() / counted


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    x, y = torch.randn(128, 6), torch.randn(128)
    valid = torch.rand(128) < 0.6
    data = TensorDataset(x, y, valid)
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    model = DDP(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for x, y, valid in loader:
        optimizer.zero_grad()
        masked(model(x), y, valid).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
