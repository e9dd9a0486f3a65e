"""Each rank reads a file of its own, as long as it happens to be; two epochs."""
# doctor: expect=uneven-ranks also=left-early,collective-on-some-ranks style=trainer stall=3

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

LENGTHS = [60, 83]


class Shard(IterableDataset):
    def __init__(self, rank):
        self.rank = rank
        self.length = LENGTHS[rank % len(LENGTHS)]  # wrong
        #+ self.length = min(LENGTHS)

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.rank)
        for _ in range(self.length):
            x = torch.randn(8, generator=generator)
            yield x, x.abs().sum()


class Trainer:
    def __init__(self):
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)))
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                loss = (self.model(x).squeeze(1) - y).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            dist.all_reduce(loss.detach())
            print(f"epoch {epoch} done")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Trainer().fit(DataLoader(Shard(dist.get_rank()), batch_size=10), epochs=2)
    dist.destroy_process_group()
