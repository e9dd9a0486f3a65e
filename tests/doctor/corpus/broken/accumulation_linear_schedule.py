"""A linear decay over the optimizer's steps that is stepped with every micro-batch."""
# doctor: expect=scheduler-per-micro-batch style=main-loop

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main(k=4, epochs=3):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(256, 16), torch.randint(0, 4, (256,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    updates = epochs * len(loader) // k
    scheduler = LambdaLR(optimizer, lambda step: max(0.0, 1 - step / updates))
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            full = (i + 1) % k == 0
            with nullcontext() if full else model.no_sync():
                (nn.functional.cross_entropy(model(x), y) / k).backward()
            if full:
                optimizer.step()
                optimizer.zero_grad()
                #+ scheduler.step()
            scheduler.step()  # wrong
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
