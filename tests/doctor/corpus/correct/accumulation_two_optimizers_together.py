"""Matrices and vectors have an optimizer each, both stepped after every window; no_sync() in a branch of its own."""
# doctor: expect= style=nanogpt

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(192, 16), torch.randint(0, 4, (192,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 4)))
    matrices = [p for p in model.parameters() if p.ndim == 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    optimizers = [torch.optim.SGD(matrices, lr=0.05, momentum=0.9), torch.optim.AdamW(vectors, lr=1e-3)]
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(one, 0.99) for one in optimizers]
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for number, (x, y) in enumerate(loader, 1):
            if number % 2:
                with model.no_sync():
                    loss = F.cross_entropy(model(x), y)
                    (loss / 2).backward()
                continue
            loss = F.cross_entropy(model(x), y)
            (loss / 2).backward()
            for optimizer, scheduler in zip(optimizers, schedulers, strict=True):
                optimizer.step()
                scheduler.step()
            model.zero_grad(set_to_none=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
