"""Convolutions with BatchNorm, DataLoader workers that are seeded apart, random crops."""
# doctor: expect= style=functions

import random

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Pictures(Dataset):
    def __init__(self, count=48):
        self.pictures = torch.randn(count, 3, 28, 28, generator=torch.Generator().manual_seed(0))
        self.labels = torch.arange(count) % 5

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        top, left = np.random.randint(0, 5, size=2)
        picture = self.pictures[index, :, top : top + 24, left : left + 24]
        if random.random() < 0.5:
            picture = picture.flip(-1)
        return picture, self.labels[index]


def seed_worker(worker_id):
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


def conv(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    dataset = Pictures()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(
        dataset,
        batch_size=8,
        sampler=sampler,
        num_workers=1,
        persistent_workers=True,
        worker_init_fn=seed_worker,
        generator=torch.Generator().manual_seed(rank),
    )
    net = nn.Sequential(conv(3, 16), conv(16, 32), nn.MaxPool2d(2), conv(32, 32), nn.Flatten(), nn.Linear(4608, 5))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for pictures, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pictures), labels).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
