"""Every rank splits the data by itself, with the generator it happens to have."""
# doctor: expect=split-differs-by-rank style=main

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split


def main():
    dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(0)
    dataset = TensorDataset(torch.randn(200, 10, generator=generator), torch.randint(0, 3, (200,), generator=generator))
    train_set, test_set = random_split(dataset, [0.8, 0.2])  # wrong
    #+ train_set, test_set = random_split(dataset, [0.8, 0.2], generator=torch.Generator().manual_seed(1))
    sampler = DistributedSampler(train_set)
    loader = DataLoader(train_set, batch_size=16, sampler=sampler)
    test_loader = DataLoader(test_set, batch_size=20, sampler=DistributedSampler(test_set, shuffle=False))
    model = DDP(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum() for x, y in test_loader)
        dist.all_reduce(right)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
