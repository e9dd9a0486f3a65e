"""Every rank draws at random, with replacement and by weight, from the whole dataset: no epoch is meant."""
# doctor: expect= style=while

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler


def main():
    dist.init_process_group("gloo")
    values = torch.Generator().manual_seed(0)
    dataset = TensorDataset(torch.randn(64, 5, generator=values), torch.arange(64) % 2)
    chance = torch.Generator().manual_seed(10 + dist.get_rank())
    sampler = WeightedRandomSampler(torch.ones(64), num_samples=64, replacement=True, generator=chance)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(nn.Linear(5, 2))
    optimizer = torch.optim.Adam(model.parameters())
    step, batches = 0, iter(loader)
    while step < 20:
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(loader)
            continue
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
