"""Trains a classifier and prints the mean loss of all ranks now and then."""

# doctor: expect=collective-on-some-ranks style=main ranks=2 stall=3
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(192, 24), torch.randint(0, 5, (192,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=12, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 5)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 4 == 3 and rank == 0:  # wrong
            #+ if i % 4 == 3:
                mean = loss.detach().clone()
                dist.all_reduce(mean)
                if rank == 0:
                    print(f"epoch {epoch} step {i} loss {mean.item() / world_size:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
