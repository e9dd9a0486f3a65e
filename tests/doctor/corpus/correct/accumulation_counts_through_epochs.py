"""Counts micro-batches through all epochs: windows span their ends, and the last ones of the training are left."""
# doctor: expect= style=main-loop

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(160, 16), torch.randint(0, 4, (160,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    micro_step = 0
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            micro_step += 1
            last = micro_step % 4 == 0
            with contextlib.nullcontext() if last else model.no_sync():
                (nn.functional.cross_entropy(model(x), y) / 4).backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
