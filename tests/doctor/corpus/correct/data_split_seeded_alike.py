"""random_split without a generator, but every rank has seeded alike before; the test part is not shared out."""
# doctor: expect= style=main

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(200, 10), torch.randint(0, 3, (200,)))
    train_set, test_set = random_split(dataset, [160, 40])
    sampler = DistributedSampler(train_set)
    loader, test_loader = DataLoader(train_set, batch_size=16, sampler=sampler), DataLoader(test_set, batch_size=20)
    model = DDP(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.manual_seed(1 + dist.get_rank())
    for epoch in range(3):
        sampler.set_epoch(epoch)
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for x, y in test_loader:
                model(x)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
