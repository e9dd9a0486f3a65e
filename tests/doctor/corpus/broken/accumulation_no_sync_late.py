"""Enters no_sync() where the gradients are made: around backward."""
# doctor: expect=no-sync-around-backward-only style=main-loop

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main(accumulate=4, epochs=2):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(256, 16), torch.randn(256, 1))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    ddp_model = DDP(nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for step, (x, y) in enumerate(loader, start=1):
            boundary = step % accumulate == 0
            out = ddp_model(x)  # wrong
            with nullcontext() if boundary else ddp_model.no_sync():
                #+ out = ddp_model(x)
                loss = nn.functional.mse_loss(out, y) / accumulate
                loss.backward()
            if boundary:
                optimizer.step()
                optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
