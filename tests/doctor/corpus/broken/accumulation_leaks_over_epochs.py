"""Ten batches per epoch in windows of four: the last two go into the next epoch's first step."""
# doctor: expect=window-leaks style=main-loop

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ACCUMULATE = 4

if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(160, 16), torch.randint(0, 4, (160,)))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            step_now = (i + 1) % ACCUMULATE == 0  # wrong
            #+ step_now = (i + 1) % ACCUMULATE == 0 or i + 1 == len(loader)
            with nullcontext() if step_now else model.no_sync():
                (nn.functional.cross_entropy(model(x), y) / ACCUMULATE).backward()
            if step_now:
                optimizer.step()
                optimizer.zero_grad()
    dist.destroy_process_group()
