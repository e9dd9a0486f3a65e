"""A stream of samples: an IterableDataset that gives each rank every second one, without any sampler."""
# doctor: expect= style=stream

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, length, rank, world_size):
        self.length, self.rank, self.world_size = length, rank, world_size

    def __iter__(self):
        for number in range(self.rank, self.length, self.world_size):
            x = torch.sin(torch.arange(12) * 0.1 * (number + 1))
            yield x, x.cumsum(0)[-1:]


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    loader = DataLoader(Stream(256, dist.get_rank(), dist.get_world_size()), batch_size=16)
    model = DDP(nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.l1_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    print(torch.stack(losses).mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
