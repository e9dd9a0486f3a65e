"""Random crops by numpy in two workers."""
# doctor: expect=worker-seeds-equal style=functions

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Crops(Dataset):
    def __init__(self):
        self.pictures = torch.randn(32, 1, 12, 12, generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        top, left = np.random.randint(0, 4, size=2)
        return self.pictures[index, :, top : top + 8, left : left + 8].clone(), index % 3


def init_worker(worker_id):
    np.random.seed(1234)  # wrong
    #+ np.random.seed(torch.initial_seed() % 2**32)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    crops = Crops()
    sampler = DistributedSampler(crops)
    loader = DataLoader(crops, 4, sampler=sampler, num_workers=2, worker_init_fn=init_worker)
    model = DDP(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for pictures, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(pictures), labels).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
