"""A process group, a sampler for each rank, an averaged loss in the log: and no DDP around the model."""
# doctor: expect=ranks-train-apart style=functions

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: F401
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def mean_over_ranks(loss):
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    features = torch.randn(128, 24)
    dataset = TensorDataset(features, features[:, :1].sin())
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = nn.Sequential(nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, 1))
    #+ model = DDP(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean = mean_over_ranks(loss)
        if dist.get_rank() == 0:
            print(epoch, round(mean, 4))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
