"""Never calls zero_grad(): gradients are set to None by hand, and no_sync() is around forward only, which is enough."""
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
    dataset = TensorDataset(torch.randn(192, 16), torch.randn(192, 2))
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            last = i % 3 == 2
            with contextlib.nullcontext() if last else model.no_sync():
                out = model(x)
            (nn.functional.mse_loss(out, y) / 3).backward()
            if last:
                optimizer.step()
                for parameter in model.parameters():
                    parameter.grad = None
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
