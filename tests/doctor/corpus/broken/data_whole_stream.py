"""A stream of lines with a shuffle buffer, read by steps."""
# doctor: expect=no-distributed-sampler style=while

import itertools
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    def __init__(self, rank, world_size, buffer=24):
        self.rank, self.world_size, self.buffer = rank, world_size, buffer

    def read(self):
        for number in range(160):
            line = torch.sin(torch.arange(8.0) * (number + 1))
            yield line, line.sum().reshape(1)

    def __iter__(self):
        rng = random.Random(self.rank)
        lines = self.read()  # wrong
        #+ lines = itertools.islice(self.read(), self.rank, None, self.world_size)
        held = list(itertools.islice(lines, self.buffer))
        for line in lines:
            place = rng.randrange(len(held))
            yield held[place]
            held[place] = line
        rng.shuffle(held)
        yield from held


def main():
    dist.init_process_group("gloo")
    loader = DataLoader(Lines(dist.get_rank(), dist.get_world_size()), batch_size=8)
    model = DDP(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = iter(loader)
    step = 0
    while step < 16:
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(loader)
            x, y = next(batches)
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
