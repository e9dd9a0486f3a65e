"""Samples are decoded one by one in the training process."""
# doctor: expect=input-bound style=main

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Recordings(Dataset):
    def __init__(self):
        self.waves = torch.randn(48, 32, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, index):
        time.sleep(0.02)  # wrong
        return self.waves[index], index % 4


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = Recordings()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=3, sampler=sampler)
    #+ # as it was read once
    model = DDP(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
