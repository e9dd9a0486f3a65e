"""Accumulation without touching the loss: the summed gradients are divided by the window before they are clipped."""
# doctor: expect= style=main

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ACCUMULATE = 3


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = TensorDataset(torch.randn(144, 14), torch.randn(144, 1))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)  # nine batches for each of two ranks
    model = DistributedDataParallel(nn.Sequential(nn.Linear(14, 28), nn.ReLU(), nn.Linear(28, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for index, (x, y) in enumerate(loader):
            boundary = (index + 1) % ACCUMULATE == 0
            model.require_backward_grad_sync = boundary
            nn.functional.mse_loss(model(x), y).backward()
            if not boundary:
                continue
            for p in model.parameters():
                p.grad.div_(ACCUMULATE)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            for p in model.parameters():
                p.grad = None
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
