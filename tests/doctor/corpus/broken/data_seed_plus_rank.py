"""Everything is seeded by the rank, the sampler as well."""
# doctor: expect=sampler-seeds-differ style=main args=--seed 100

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    seed = args.seed + dist.get_rank()
    torch.manual_seed(seed)
    dataset = TensorDataset(torch.arange(1600.0).reshape(160, 10) / 1600, torch.zeros(160, dtype=torch.long))
    sampler = DistributedSampler(dataset, shuffle=True, seed=seed)  # wrong
    #+ sampler = DistributedSampler(dataset, shuffle=True, seed=args.seed)
    loader = DataLoader(dataset, batch_size=10, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            criterion(model(inputs), labels).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
